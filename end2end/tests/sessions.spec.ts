import { type Page } from '@playwright/test';
import { accessible, alive, another, expect, signIn, test, watch } from '../fixtures';

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
  await page.locator('#name').fill('with sessions');
  await page.getByLabel('Setup script').fill('echo from-setup > /workspace/prepared');
  await page.getByRole('button', { name: 'Save and test setup' }).click();
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });

  // The way from the table, which offers a session only now.
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await page.getByRole('row', { name: /with sessions/ }).getByRole('button', { name: /Actions/ }).click();
  await page.getByRole('button', { name: 'Start session' }).click();
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]{36}/);
  await expect(page.getByRole('status').getByText('Running')).toBeVisible({ timeout: 60_000 });
  await type(page, 'echo two words > /workspace/kept; cat prepared kept; tput cols');
  await expect(page.locator(screen)).toContainText('from-setup');
  await expect(page.locator(screen)).toContainText('two words');
  await expect(page.getByRole('img', { name: /^Memory: / })).toBeVisible({ timeout: 20_000 });
  await accessible(page);

  // A lost connection comes back to the same shell.
  await type(page, 'mark=still-here');
  await page.reload();
  await alive(page);
  await expect(page.locator('session-terminal[data-ready]')).toBeVisible({ timeout: 30_000 });

  await page.getByRole('button', { name: 'Stop' }).click();
  await expect(page.getByText('It is stopped.')).toBeVisible({ timeout: 30_000 });
  await accessible(page);
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByRole('status').getByText('Running')).toBeVisible({ timeout: 60_000 });
  await type(page, 'cat /workspace/kept; echo again');
  await expect(page.locator(screen)).toContainText('two words');

  await page.goto(`${groundwork.url}/sessions`);
  await alive(page);
  await expect(page.getByRole('row', { name: /with sessions/ }).getByText('Running')).toBeVisible();
  await accessible(page);
  await page.getByRole('row', { name: /with sessions/ }).getByRole('link').first().click();
  await page.getByRole('link', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await expect(page).toHaveURL(/\/sessions$/);
  await expect(page.getByText('No sessions')).toBeVisible({ timeout: 20_000 });
  expect(groundwork.command('doctor', '--leftovers')).toBe('Nothing is left over.');
});

test('without scripting a session is started, stopped, resumed and deleted', async ({ browser, groundwork }) => {
  test.setTimeout(120_000);
  const { context, page } = await another(browser, false);
  const complaints: string[] = [];
  watch(page, complaints);
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await page.locator('#name').fill('plain');
  await page.getByRole('button', { name: 'Create environment', exact: true }).click();
  await expect(page).toHaveURL(/\/environments\/[0-9a-f-]{36}/);
  await page.goto(`${groundwork.url}/sessions`);
  await page.getByLabel('Environment').selectOption({ label: 'plain' });
  await page.getByRole('button', { name: 'Start session' }).click();
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]{36}/);
  const becomes = async (text: string) =>
    expect(async () => {
      await page.reload();
      await expect(page.getByRole('status').getByText(text)).toBeVisible({ timeout: 500 });
    }).toPass({ timeout: 30_000 });
  await becomes('Running');
  await page.getByRole('button', { name: 'Stop' }).click();
  await becomes('Stopped');
  await page.getByRole('button', { name: 'Resume' }).click();
  await becomes('Running');
  await page.getByRole('link', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await expect(page).toHaveURL(/\/sessions$/);
  expect(complaints).toEqual([]);
  await context.close();
});
