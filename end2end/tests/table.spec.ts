// What the table keeps apart: answers that come late, rows, tabs.
import { type Locator, type Page, type Route } from '@playwright/test';
import { alive, createEnvironment, environmentPage, expect, signIn, test } from '../fixtures';

/** Holds calls of a server function back, each until the story lets it go on. */
async function hold(page: Page, name: string): Promise<Route[]> {
  const held: Route[] = [];
  await page.route(`**/fn/${name}`, (route) => void held.push(route));
  return held;
}

/** Answers a call as a server that refuses it for this environment. */
const refuse = (route: Route, message: string, environmentId?: string) =>
  route.fulfill({ status: 429, json: { code: 'setup_run_limit', message, details: { environmentId } } });

const row = (page: Page, name: string) => page.getByRole('row', { name: new RegExp(name) });

async function choose(page: Page, name: string, role: 'button' | 'link', item: string): Promise<Locator> {
  await row(page, name).getByRole('button', { name: /Actions/ }).click();
  const action = row(page, name).getByRole(role, { name: item, exact: true });
  await action.click();
  return action;
}

const idOf = (page: Page) => new URL(page.url()).pathname.split('/')[2] as string;

test('a test of a row leads to its run: pressed twice it is one, after an answer it is another', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'tested here', script: 'true' });
  const address = page.url();
  const id = idOf(page);
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  const calls = await hold(page, 'test-setup');
  const keys = () => calls.map((call) => new URLSearchParams(call.request().postData() ?? '').get('key'));
  const button = await choose(page, 'tested here', 'button', 'Test setup');
  await expect.poll(() => calls.length).toBe(1);
  await refuse(calls[0], 'Later.', id);
  await expect(page.getByRole('alert')).toContainText('The setup test did not start.');
  await expect(page.getByRole('alert')).toContainText('Later.');
  await row(page, 'tested here').getByRole('button', { name: /Actions/ }).click();
  await button.evaluate((button: HTMLButtonElement) => {
    button.form?.requestSubmit();
    button.form?.requestSubmit();
  });
  await expect.poll(() => calls.length).toBe(3);
  expect(keys()[1]).not.toBe(keys()[0]);
  expect(keys()[2]).toBe(keys()[1]);
  await Promise.all([calls[1].continue(), calls[2].continue()]);
  await environmentPage(page);
  expect(page.url().replace(/#.*/, '')).toBe(address);
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await page.reload();
  await expect(page.locator('#setup-test').getByRole('listitem').filter({ hasText: ' by ' })).toHaveCount(1);

  // The same row once more.
  await page.unroute('**/fn/test-setup');
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await choose(page, 'tested here', 'button', 'Test setup');
  await environmentPage(page);
  await expect(page.locator('#setup-test').getByRole('listitem').filter({ hasText: ' by ' })).toHaveCount(2);
});

test('a session that does not start names its environment, in the table and on the page of sessions', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'goes first' });
  const id = idOf(page);
  await createEnvironment(page, groundwork.url, { name: 'goes second' });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  const calls = await hold(page, 'start-session');
  await choose(page, 'goes first', 'button', 'Start session');
  await choose(page, 'goes second', 'button', 'Start session');
  // The refusal of the first comes when the second is on its way.
  await expect.poll(() => calls.length).toBe(2);
  await refuse(calls[0], 'No room.', id);
  const alert = page.getByRole('alert').filter({ hasText: 'The session did not start.' });
  await expect(alert).toContainText('No room.');
  await expect(alert.getByRole('link', { name: 'Open the environment' })).toHaveAttribute('href', `/environments/${id}`);
  await page.unroute('**/fn/start-session');

  // Refused by the server itself, on the other page: it is gone meanwhile.
  await page.goto(`${groundwork.url}/sessions`);
  await alive(page);
  await page.getByLabel('Environment').selectOption({ label: 'goes first' });
  const other = await page.context().newPage();
  await other.goto(`${groundwork.url}/environments/${id}/delete`);
  await other.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(other).toHaveURL(/\/environments$/);
  await page.getByRole('button', { name: 'Start session' }).click();
  await expect(alert.getByRole('link', { name: 'Open the environment' })).toHaveAttribute('href', `/environments/${id}`);
});

test('what comes of a deletion concerns the row that it was about', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  for (const name of ['first of three', 'second of three', 'third of three']) await createEnvironment(page, groundwork.url, { name });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  const calls = await hold(page, 'delete-environment');
  const dialog = page.getByRole('dialog', { name: 'Delete environment' });
  const goes = dialog.getByRole('button', { name: 'Delete', exact: true });
  await choose(page, 'first of three', 'link', 'Delete');
  await goes.click();
  await expect.poll(() => calls.length).toBe(1);
  await page.keyboard.press('Escape');
  await choose(page, 'second of three', 'link', 'Delete');
  await expect(dialog).toContainText('second of three');
  await calls[0].continue();
  await expect(row(page, 'first of three')).toHaveCount(0);
  await expect(row(page, 'second of three')).toHaveCount(1);
  await expect(dialog).toContainText('second of three');

  await goes.click();
  await expect.poll(() => calls.length).toBe(2);
  await refuse(calls[1], 'Not now.');
  await expect(dialog.getByRole('alert')).toContainText('Not now.');
  await page.keyboard.press('Escape');
  await choose(page, 'third of three', 'link', 'Delete');
  await expect(dialog).toContainText('third of three');
  await expect(goes).toBeEnabled();
  await expect(dialog.getByRole('alert')).toHaveCount(0);
  // Nor does a refusal that comes late stand in the dialog of another one, or one of before in the dialog of the same.
  await goes.click();
  await expect.poll(() => calls.length).toBe(3);
  await page.keyboard.press('Escape');
  await choose(page, 'second of three', 'link', 'Delete');
  await expect(dialog).toContainText('second of three');
  await refuse(calls[2], 'Too late.');
  await expect(goes).toBeEnabled();
  await expect(dialog.getByRole('alert')).toHaveCount(0);
  await expect(row(page, 'third of three')).toHaveCount(1);
});

test('search and list follow the address, whichever way it changes', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  for (const name of ['gnu', 'emu']) await createEnvironment(page, groundwork.url, { name });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  const search = page.getByRole('searchbox');
  // Spaces at the ends stay while one types.
  await search.pressSequentially('  gn');
  await expect(page).toHaveURL(/\?query=gn$/);
  await expect(search).toHaveValue('  gn');
  await expect(row(page, 'emu')).toHaveCount(0);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Environments' }).click();
  await expect(page).toHaveURL(/\/environments$/);
  await expect(search).toHaveValue('');
  await expect(row(page, 'emu')).toHaveCount(1);
  await page.goBack();
  await expect(search).toHaveValue('gn');
  await expect(row(page, 'emu')).toHaveCount(0);
  await expect(row(page, 'gnu')).toHaveCount(1);
  await search.fill('nothing of this name');
  await page.getByRole('link', { name: 'Clear the search' }).click();
  await expect(search).toHaveValue('');
  await expect(row(page, 'emu')).toHaveCount(1);
});

test('a changed name is the one that the console shows, and what is typed beside it stays', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/account`);
  await alive(page);
  await page.getByLabel('Current password').fill('half typed');
  await page.getByLabel('Display name').fill('Ada of the console');
  await page.getByRole('button', { name: 'Save name' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  const sidebar = page.getByRole('complementary', { name: 'Sidebar' });
  await expect(sidebar.getByText('Ada of the console')).toBeVisible();
  await expect(page.getByText('Saved.')).toBeVisible();
  await expect(page.getByLabel('Current password')).toHaveValue('half typed');
  await sidebar.getByRole('link', { name: 'Sessions' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Sessions' })).toBeVisible();
  await sidebar.getByRole('link', { name: /Ada of the console/ }).click();
  await expect(page.getByLabel('Display name')).toHaveValue('Ada of the console');
});
