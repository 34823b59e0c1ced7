// Pages that keep themselves up to date, and say so when they cannot.
import { type Page } from '@playwright/test';
import { accessible, admin, alive, createEnvironment, environmentPage, expect, signIn, startSession, test } from '../fixtures';

const note = (page: Page) => page.getByRole('status').filter({ hasText: 'This page is no longer kept up to date' });

/** The longest that a follower takes to notice: a beat of the stream, and the next look. */
const NOTICED = { timeout: 45_000 };

async function signInAgain(page: Page): Promise<void> {
  await page.getByLabel('E-mail address').fill(admin.email);
  await page.getByLabel('Password').fill(admin.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('tabs that are signed out elsewhere say so, and lead back to their page', async ({ page, context, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'left open' });
  const environment = new URL(page.url()).pathname;
  await page.goto(`${groundwork.url}/sessions`);
  await alive(page);
  await startSession(page, page.getByRole('button', { name: 'Start session' }));
  await expect(page.getByRole('status').getByText('Running')).toBeVisible({ timeout: 60_000 });
  const session = new URL(page.url()).pathname;
  const paths = ['/environments?query=left', '/environments', '/sessions', session];
  const tabs = await Promise.all(
    paths.map(async (path) => {
      const tab = await context.newPage();
      await tab.goto(groundwork.url + path);
      await alive(tab);
      return tab;
    }),
  );
  await page.goto(`${groundwork.url}/members`);
  await page.getByRole('button', { name: 'Sign out', exact: true }).click();
  await expect(page).toHaveURL(/\/sign-in/);
  for (const [at, tab] of tabs.entries()) {
    // Only a page that is looked at keeps itself up to date.
    await tab.bringToFront();
    await expect(note(tab)).toContainText('you are signed out.', NOTICED);
    const back = `/sign-in?next=${paths[at].replace('?', '%3F').replace('=', '%3D')}`;
    await expect(note(tab).getByRole('link', { name: 'Sign in' })).toHaveAttribute('href', back);
  }
  const [searched, table] = tabs;
  await searched.bringToFront();
  await accessible(searched);
  // A link in such a tab leads no further than to signing in, and from there on.
  await table.bringToFront();
  await table.getByRole('link', { name: 'left open' }).click();
  await expect(table.getByRole('heading', { name: 'Signed out' })).toBeVisible();
  await table.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
  await signInAgain(table);
  await environmentPage(table);
  expect(new URL(table.url()).pathname).toBe(environment);
  // Whoever is signed in again in one tab is so in all.
  await searched.bringToFront();
  await expect(note(searched)).toBeHidden(NOTICED);
  await expect(searched.getByRole('searchbox')).toHaveValue('left');
});

test('without a connection pages say that they are behind, and catch up', async ({ page, context, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/sessions`);
  await alive(page);
  groundwork.cuts = true;
  await context.setOffline(true);
  await expect(note(page)).toContainText('the server cannot be reached; it is tried again.', NOTICED);
  await context.setOffline(false);
  await expect(note(page)).toBeHidden(NOTICED);
  // The table's open stream outlives that switch of the browser's, but not the server.
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await groundwork.stop();
  await expect(note(page)).toContainText('the server cannot be reached; it is tried again.', NOTICED);
  await groundwork.start();
  await expect(note(page)).toBeHidden(NOTICED);
});
