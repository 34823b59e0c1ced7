// What was saved before, going back to it, and two people who edit at once.
import { type Page, type Route } from '@playwright/test';
import { accessible, alive, another, createEnvironment, environmentPage, expect, signIn, test } from '../fixtures';

/** Holds back what the server answers once to this function, until the story lets it go. */
async function heldBack(page: Page, endpoint: string): Promise<{ asked: Promise<void>; go: () => void }> {
  let go = () => {};
  const held = new Promise<void>((resolve) => (go = resolve));
  let ask = () => {};
  const asked = new Promise<void>((resolve) => (ask = resolve));
  const hold = async (route: Route) => {
    const response = await route.fetch();
    ask();
    await held;
    await route.fulfill({ response });
  };
  await page.route(`**/fn/${endpoint}`, hold, { times: 1 });
  return { asked, go };
}

test('a saved definition is compared with today and brought back', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'kept', script: 'echo one\necho two' });
  const address = page.url();
  await page.getByLabel('Setup script').fill('echo one\necho three');
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await page.getByRole('link', { name: 'History' }).click();
  await expect(page.getByRole('heading', { name: 'History' })).toBeVisible();
  const newest = page.getByRole('listitem').filter({ hasText: 'Revision 2' });
  await expect(newest).toContainText('Current');
  await expect(newest.getByRole('group', { name: 'Setup script, line by line' })).toMatchAriaSnapshot(`
    - group "Setup script, line by line":
      - text: echo one
      - deletion: echo two
      - insertion: echo three
  `);
  await accessible(page);
  await page.getByRole('link', { name: /Compare with today.*revision 1\)$/ }).click();
  await expect(page).toHaveURL(/history\?compare=1$/);
  await expect(page.getByRole('heading', { name: 'Today and revision 1' })).toBeVisible();
  await page.getByRole('button', { name: 'Restore revision 1' }).click();
  await environmentPage(page);
  await expect(page).toHaveURL(address);
  await expect(page.getByLabel('Setup script')).toHaveValue('echo one\necho two\n');
});

test('edits of two people are merged, and what both changed is asked', async ({ page, browser, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'shared' });
  const address = page.url();
  const other = await another(browser);
  await signIn(other.page, groundwork.url);
  await other.page.goto(address);
  await alive(other.page);
  await other.page.locator('#name').fill('theirs');
  await other.page.getByLabel('Description').fill('their text');
  await other.page.getByRole('button', { name: 'Save environment' }).click();
  await expect(other.page.getByText('Saved.')).toBeVisible();
  await other.context.close();

  await page.locator('#name').fill('mine');
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('Somebody else saved this environment meanwhile.')).toBeVisible();
  await expect(page.getByLabel('Description')).toHaveValue('their text');
  await expect(page.locator('#name')).toHaveValue('mine');
  await accessible(page);
  // Undecided, nothing is saved.
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('One field left to decide.')).toBeVisible();
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await expect(page.locator('#name')).toHaveValue('theirs');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await expect(page.getByText('All decided')).toBeVisible();
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await page.reload();
  await expect(page.locator('#name')).toHaveValue('mine');
});

test('a stale verdict names what differs and puts it back', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'verdict', script: 'true', test: true });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await page.reload();
  await alive(page);
  await page.getByText('Storage and lifecycle').click();
  await page.getByLabel('Workspace disk (GiB)').fill('20');
  await expect(page.getByText('Saving makes the verdict stale')).toBeVisible();
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('The verdict is about an earlier configuration.')).toBeVisible();
  await expect(page.getByText('20 GiB', { exact: true })).toBeVisible();
  // What is being typed outlives putting something else back.
  await page.getByLabel('Description').fill('typed meanwhile');
  await page.getByRole('button', { name: /Put it back.*Workspace disk/ }).click();
  await expect(page.getByText('The verdict is about an earlier configuration.')).toBeHidden();
  await expect(page.getByLabel('Workspace disk (GiB)')).toHaveValue('2');
  await expect(page.getByLabel('Description')).toHaveValue('typed meanwhile');
});

test('what is typed while a save is under way stays, and the next save stores it', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'typing', script: 'echo one' });
  const save = page.getByRole('button', { name: 'Save environment' });
  const description = page.getByLabel('Description');
  const script = page.getByLabel('Setup script');
  const answer = await heldBack(page, 'save-environment');
  await description.fill('first');
  await page.locator('#env_vars').evaluate((area: HTMLTextAreaElement) => {
    area.value = 'B=2\nA=1';
    area.dispatchEvent(new InputEvent('input', { bubbles: true }));
  });
  await save.click();
  await answer.asked;
  await description.fill('first, and more');
  await script.fill('echo one\necho two ');
  answer.go();
  await expect(page.getByText('Unsaved changes')).toBeVisible();
  // What nobody touched is as it was saved.
  await expect(page.locator('#env_vars')).toHaveValue('A=1\nB=2\n');
  await expect(description).toHaveValue('first, and more');
  await expect(script).toHaveValue('echo one\necho two ');
  await save.click();
  await expect(page.getByText('Saved.')).toBeVisible();
  await page.reload();
  await expect(description).toHaveValue('first, and more');
  await expect(script).toHaveValue(/^echo one\necho two *\n$/);
});

test('what is typed while the edits of others are fetched stays', async ({ page, browser, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'fetched' });
  const other = await another(browser);
  await signIn(other.page, groundwork.url);
  await other.page.goto(page.url());
  await alive(other.page);
  await other.page.locator('#name').fill('theirs');
  await other.page.getByRole('button', { name: 'Save environment' }).click();
  await expect(other.page.getByText('Saved.')).toBeVisible();
  await other.context.close();

  const answer = await heldBack(page, 'merge-environment');
  await page.locator('#name').fill('mine');
  await page.getByRole('button', { name: 'Save environment' }).click();
  await answer.asked;
  await page.locator('#name').fill('mine, longer');
  await page.getByLabel('Description').fill('typed meanwhile');
  answer.go();
  await expect(page.getByText('One field left to decide.')).toBeVisible();
  await expect(page.locator('#name')).toHaveValue('mine, longer');
  await expect(page.getByLabel('Description')).toHaveValue('typed meanwhile');
  // One's own comes back as it was last.
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await expect(page.locator('#name')).toHaveValue('theirs');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await expect(page.locator('#name')).toHaveValue('mine, longer');
});
