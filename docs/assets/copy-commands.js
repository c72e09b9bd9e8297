// The copy button of a console block copies its commands: no prompt, and no output.
for (const code of document.querySelectorAll("pre > code")) {
  if (code.querySelector(".gp")) {
    const commands = code.cloneNode(true)
    for (const other of commands.querySelectorAll(".gp, .go")) other.remove()
    const text = commands.textContent.replace(/\n{2,}/g, "\n").trim()
    code.parentElement.setAttribute("data-copy", text)
  }
}
