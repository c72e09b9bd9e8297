"""The SDK's CustomJob with a request that was made elsewhere. Importing this imports the SDK."""

from __future__ import annotations

from typing import Any

from google.cloud import aiplatform


class RawCustomJob(aiplatform.CustomJob):
    """A CustomJob that sends the whole request, regardless of the arguments of `.run()`."""

    def set_request(self, message: Any) -> None:
        """Send this `aiplatform_v1.CustomJob`."""
        self._gca_resource = message

    def _get_experiment_and_run_resource_name(  # type: ignore[override]
        self, experiment: Any = None, experiment_run: Any = None
    ) -> Any:
        """Fields without an argument of `.submit()` stay unchanged; the SDK's own method would
        clear them.
        """
        if experiment is None:
            return self.job_spec.experiment, self.job_spec.experiment_run
        return super()._get_experiment_and_run_resource_name(experiment, experiment_run)
