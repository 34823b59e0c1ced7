// The setup script's editor: advice beside its lines, as one types, points and moves.
import { accessible, alive, expect, signIn, test } from '../fixtures';

test('advice stands under the line that one points at, and its entry is marked while one writes there', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  const script = page.getByLabel('Setup script');
  await script.fill('echo one\nset -x\necho two\n');
  const note = page.locator('.editor-note');
  const flagged = page.locator('.editor-gutter .has-warning');
  const entry = page.locator('#script-warnings li');
  await expect(flagged).toHaveText('2');
  await expect(entry).toContainText('Tracing writes the values of variables into the log');

  await flagged.hover();
  await expect(note).toContainText('Tracing writes the values of variables into the log');
  const [line, under] = [await flagged.boundingBox(), await note.boundingBox()];
  expect(under?.y).toBeGreaterThanOrEqual((line?.y ?? 0) + (line?.height ?? 0) - 1);
  await page.getByRole('heading', { level: 1 }).hover();
  await expect(note).toHaveCount(0);

  // The same for those who use keys: the entry's button names the line.
  await page.getByRole('button', { name: 'Line 2', exact: true }).focus();
  await expect(note).toBeVisible();
  await accessible(page);
  await page.keyboard.press('Enter');
  await expect(script).toBeFocused();
  await expect(note).toHaveCount(0);
  await expect(entry).toHaveClass(/warning-here/);
  await page.keyboard.press('Control+Home');
  await expect(entry).not.toHaveClass(/warning-here/);
  await page.keyboard.press('ArrowDown');
  await expect(entry).toHaveClass(/warning-here/);

  // A click on the number goes to the line as well.
  await page.keyboard.press('Control+End');
  await expect(entry).not.toHaveClass(/warning-here/);
  await flagged.click();
  await expect(script).toBeFocused();
  await expect(entry).toHaveClass(/warning-here/);
});
