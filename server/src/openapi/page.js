const calls = [...document.querySelectorAll("details.call")];
const search = document.getElementById("search");
const nothing = document.querySelector(".nothing");
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  for (const call of calls) call.hidden = !call.dataset.words.includes(wanted);
  for (const section of document.querySelectorAll("section.group"))
    section.hidden = !section.querySelector("details.call:not([hidden])");
  nothing.hidden = calls.some((call) => !call.hidden);
});
for (const select of document.querySelectorAll("select"))
  select.addEventListener("change", () => select.form.requestSubmit());
const copy = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without TLS browsers have no clipboard; the older way still works.
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await copy(button.nextElementSibling.textContent);
    button.textContent = "Copied";
    button.focus();
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
}
const open = () => {
  const call = document.getElementById(location.hash.slice(1));
  if (call && call.matches("details.call")) call.open = true;
};
addEventListener("hashchange", open);
open();
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    search.focus();
  }
});
document.body.dataset.alive = "";
