const calls = [...document.querySelectorAll("details.call")];
const search = document.getElementById("search");
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  for (const call of calls) call.hidden = !call.dataset.words.includes(wanted);
  for (const section of document.querySelectorAll("section"))
    section.hidden = !section.querySelector("details.call:not([hidden])");
});
for (const select of document.querySelectorAll("select"))
  select.addEventListener("change", () => select.form.requestSubmit());
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    button.textContent = "Copied";
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
  if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    search.focus();
  }
});
