// Hover, focus and press cannot be asked for by markup. Each rule of the console's own style sheets that has one of them is
// put behind itself once more, for what lies in an element that shows that state.
const inside = {
  hover: ':is(.show-hover *)',
  active: ':is(.show-active *)',
  focus: ':is(.show-focus :where(a, button, input, select, textarea, summary, [tabindex]))',
};
function drawAgain(parent) {
  for (let at = parent.cssRules.length - 1; at >= 0; at--) {
    const rule = parent.cssRules[at];
    if (rule.cssRules?.length) drawAgain(rule);
    if (!rule.selectorText) continue;
    const selector = rule.selectorText.replace(
      /:(hover|active|focus)(-visible)?(?![\w-])/g,
      (_, state) => inside[state],
    );
    if (selector !== rule.selectorText) parent.insertRule(`${selector} { ${rule.style.cssText} }`, at + 1);
  }
}
for (const sheet of document.styleSheets) drawAgain(sheet);
