"""Causes of failed jobs in TensorFlow, Keras and JAX.

Sources: texts of tests/fixtures/real; the messages in the code of TensorFlow, Keras and XLA.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

TENSORFLOW_CAUSES = (
    cause(
        "checkpoint-mismatch",
        r"Assign requires shapes of both tensors to match|load_weights[\s\S]{0,1500}?ValueError: "
        r"(Shapes? [^\n]{1,100})"
        r"|(Layer shape \([^\n]{1,60} not compatible with weight shape[^\n]{0,60})"
        r"|load a weight file containing (\d{1,6} layers into a model with \d{1,6})"
        r"|((?:Layer|Weight) count mismatch[^\n]{0,100}|Shape mismatch in layer[^\n]{0,100})"
        r"|(Layer [^\n]{1,80} expected \d{1,6} variables, but received \d{1,6})"
        r"|(\d{1,6} objects could not be loaded)|(Key \S{1,120} not found in checkpoint)"
        r"|(a mismatch between the current graph and the graph from the checkpoint)",
        "saved weights do not fit the model: {names}",
        "build the same model that wrote them, with the same number of classes and input shape, "
        "or begin without them: a folder of an earlier run is resumed",
    ),
    cause(
        "keras-model",
        r"ValueError: (Unknown (?:layer|loss|metric|optimizer|object|activation"
        r"|initializer)[^\n]{0,3}"
        r"(?:function)?[^\n]{0,60})|(Could not (?:locate|deserialize) (?:class"
        r"|function)?[^\n]{1,80})"
        r"|(Unrecognized keyword arguments(?: passed)?[^\n]{0,80})|(Error when deserializing class "
        r"[^\n]{1,80})|(File format not supported: [^\n]{1,80})"
        r"|(Layer '[^'\n]{1,60}' expected \d{1,4} "
        r"input\(s\)\. Received \d{1,4})|(bad marshal data[^\n]{0,40})",
        "Keras cannot build a saved model: an object of it is unknown, or another version of Keras "
        "saved it: {names}",
        "load it with the version of TensorFlow and Keras that saved it (for Keras 2: tf_keras, "
        "TF_USE_LEGACY_KERAS=1 in run.env), and pass your own layers in custom_objects",
    ),
    cause(
        "tensor-shape",
        r"(Incompatible shapes(?: for broadcasting)?: [^\n]{1,80})"
        r"|([Ll]ogits and labels must (?:be broadcastable|(?:have|be) (?:the )?same)[^\n]{0,80})"
        r"|(is incompatible with the layer: [^\n]{1,100})|(Matrix size-incompatible[^\n]{0,60})"
        r"|(Shapes? [(\[][\d, None?]{1,40}[)\]] (?:and"
        r"|vs) [(\[][\d, None?]{1,40}[)\]] are incompatible)"
        r"|(Layer \"?[^\n]{1,60} expects \d{1,4} input\(s\), but it received \d{1,4})"
        r"|(got incompatible shapes for broadcasting[^\n]{0,60})"
        r"|(Cannot feed value of shape [^\n]{1,120})"
        r"|(Dimension \d{1,3} in both shapes must be equal[^\n]{0,80})"
        r"|Error when checking (?:model )?(?:input"
        r"|target): (expected [^\n]{1,60} to have [^\n]{1,120})",
        "a layer or an operation got tensors of other shapes than it expects: {names}",
        "compare the shape of a batch with the model's inputs, and of the labels with its outputs: "
        "one-hot labels need categorical_crossentropy, numbers sparse_categorical_crossentropy",
    ),
    cause(
        "compile",
        r"Missing \d{1,3}-th output from node (\S{1,100})|(The graph couldn't be sorted in "
        r"topological order)(?=[\s\S]{0,400}Error)",
        "TensorFlow's graph optimizer broke the graph of the model: {names}",
        "turn it off to see the rest work: tf.config.optimizer.set_experimental_options with "
        "layout_optimizer False or disable_meta_optimizer True; use a newer TensorFlow",
    ),
    cause(
        "compile",
        r"libdevice not found at (\S{1,100})|Can't find libdevice directory (\S{1,100})",
        "XLA does not find CUDA's libdevice: {names}",
        "set XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda in run.env to the CUDA toolkit "
        "of the "
        "image (its folder has nvvm/libdevice), or install nvidia-cuda-nvcc with pip",
    ),
    cause(
        "gpu-models",
        r"executable is built for device \S{1,10} of type "
        r"(\"[^\"\n]{1,80}\"; cannot run it on device \S{1,12} of type \"[^\"\n]{1,80}\")",
        "a process uses GPUs of different models, for which XLA compiles only once: {names}",
        "use GPUs of one model: choose them with CUDA_VISIBLE_DEVICES, or start one process "
        "for each "
        "GPU",
    ),
    cause(
        "tpu-memory",
        r"Ran out of memory in memory space (\w{2,8})|XLA:TPU compile permanent error()"
        r"|Attempting to (?:allocate|reserve) [^\n]{1,60}(?:hbm|HBM)()",
        "the memory of a TPU is exhausted: {names}",
        "use a smaller batch, rematerialization (jax.checkpoint) or more chips, over which the "
        "model is sharded",
    ),
    cause(
        "jax-sharding",
        r"(global size of its dimension \d{1,3} should be divisible by[^\n]{0,60})"
        r"|(Received incompatible devices for jitted computation[^\n]{0,80})"
        r"|(sharding [^\n]{1,80} is only valid for values of rank[^\n]{0,60})"
        r"|(Fetching value for [^\n]{0,30}that spans non-addressable[^\n]{0,40})",
        "an array does not fit its sharding over the devices: {names}",
        "make sizes a multiple of the devices of their mesh axis, put all arguments on the same "
        "mesh; read global arrays with process_allgather",
    ),
    cause(
        "jax-tracer",
        r"((?:Tracer\w{4,30}Conversion|UnexpectedTracer|Concretization\w{0,6}|NonConcreteBoolean\w{0,6})"
        r"Error)",
        "code under jax.jit needs the value of an array, which is not known at that time: {names}",
        "use jax.lax.cond, scan and jnp.where instead of Python's if and for on arrays, or "
        "make the "
        "argument static (static_argnums)",
    ),
    cause(
        "compile",
        r"(\[hlo verifier\][^\n]{0,200})|(Failed after [\w-]{3,40})$|(Mosaic failed to compile"
        r"[^\n]{0,120})|(ptxas exited with non-zero error code[^\n]{0,80})",
        "XLA could not compile the program, a fault of the compiler: {names}",
        "use another version of jax and jaxlib (the same on all nodes); leave out parts of the "
        "function, such as a vmap, to find the operation that it cannot compile",
    ),
)
"""In the order in which they are shown."""
