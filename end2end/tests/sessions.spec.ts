import { type Page } from '@playwright/test';
import { accessible, alive, another, environmentPage, expect, sent, signIn, smallDisk, startSession, test, watch } from '../fixtures';

const screen = '.xterm-rows';

async function type(page: Page, line: string): Promise<void> {
  await expect(page.locator('session-terminal[data-ready]')).toBeVisible({ timeout: 30_000 });
  await page.locator('session-terminal .xterm-helper-textarea').focus();
  await page.keyboard.type(`${line}\n`);
}

test('from a template to a session: a command in the terminal, a stop, a resume, and the file is still there', async ({
  page,
  groundwork,
}) => {
  test.setTimeout(180_000);
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  await page.getByRole('link', { name: /Base sandbox/ }).click();
  await expect(page.getByText(/^Filled from Base sandbox/)).toBeVisible();
  await page.locator('#name').fill('with sessions');
  await page.getByLabel('Setup script').fill('echo from-setup > /workspace/prepared');
  await smallDisk(page);
  await page.getByRole('button', { name: 'Save and test setup' }).click();
  await environmentPage(page);
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });

  // The way from the table, which offers a session only now.
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await page.getByRole('row', { name: /with sessions/ }).getByRole('button', { name: /Actions/ }).click();
  await startSession(page, page.getByRole('button', { name: 'Start session' }));
  await expect(page.getByRole('status').getByText('Running')).toBeVisible({ timeout: 60_000 });
  await type(page, 'echo two words > /workspace/kept; cat prepared kept; tput cols');
  await expect(page.locator(screen)).toContainText('from-setup');
  await expect(page.locator(screen)).toContainText('two words');
  await expect(page.getByRole('img', { name: /^Memory: / })).toBeVisible({ timeout: 20_000 });
  await accessible(page);

  // A page that is loaded again has a shell again.
  await page.reload();
  await alive(page);
  await type(page, 'echo "sum $((1 + 1))"');
  await expect(page.locator(screen)).toContainText('sum 2');

  await page.getByRole('button', { name: 'Stop' }).click();
  await expect(page.getByText('It is stopped.')).toBeVisible({ timeout: 60_000 });
  await accessible(page);
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByRole('status').getByText('Running')).toBeVisible({ timeout: 60_000 });
  await type(page, 'cat /workspace/kept; echo again');
  await expect(page.locator(screen)).toContainText('two words');

  await page.goto(`${groundwork.url}/sessions`);
  await alive(page);
  await expect(page.getByRole('row', { name: /with sessions/ }).getByText('Running')).toBeVisible();
  await accessible(page);

  // Whoever deletes the environment is told first what runs on it.
  let arrives = () => {};
  const held = new Promise<void>((resolve) => (arrives = resolve));
  await page.route(/\/fn\/sessions-of/, async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await page.getByRole('row', { name: /with sessions/ }).getByRole('button', { name: /Actions/ }).click();
  await page.getByRole('link', { name: 'Delete', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete environment' });
  const goes = dialog.getByRole('button', { name: 'Delete', exact: true });
  await expect(goes).toBeDisabled();
  await expect(goes).toHaveAttribute('title', 'What runs on it is being looked up');
  arrives();
  await expect(dialog.getByText('1 session of it will be stopped and deleted with all files.')).toBeVisible();
  await goes.click();
  await expect(page.getByText('with sessions')).toHaveCount(0);
  await page.goto(`${groundwork.url}/sessions`);
  await expect(page.getByText('No sessions')).toBeVisible({ timeout: 60_000 });
  expect(groundwork.command('doctor', '--leftovers')).toBe('Nothing is left over.');
});

test('without scripting a session is started, stopped, resumed and deleted', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser, false);
  const complaints: string[] = [];
  watch(page, complaints);
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await page.locator('#name').fill('plain');
  await smallDisk(page);
  await sent(page, page.getByRole('button', { name: 'Create environment', exact: true }));
  await expect(page).toHaveURL(/\/environments\/[0-9a-f-]{36}/);
  const environment = page.url();
  await page.goto(`${groundwork.url}/sessions`);
  await page.getByLabel('Environment').selectOption({ label: 'plain' });
  await sent(page, page.getByRole('button', { name: 'Start session' }));
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]{36}/);
  const becomes = async (text: string) =>
    expect(async () => {
      await page.reload();
      await expect(page.getByRole('status').getByText(text)).toBeVisible({ timeout: 500 });
    }).toPass({ timeout: 60_000 });
  await becomes('Running');
  await sent(page, page.getByRole('button', { name: 'Stop' }));
  await becomes('Stopped');
  await sent(page, page.getByRole('button', { name: 'Resume' }));
  await becomes('Running');
  const session = page.url();
  await page.goto(`${environment}/delete`);
  await expect(page.getByText('1 session of it will be stopped and deleted with all files.')).toBeVisible();
  await page.goto(session);
  await page.getByRole('link', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await expect(page).toHaveURL(/\/sessions$/);
  expect(complaints).toEqual([]);
  await context.close();
});
