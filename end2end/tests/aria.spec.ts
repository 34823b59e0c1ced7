// What each page is to those who hear it: headings, fields, buttons and states, as the browser tells assistive technology.
// `make e2e ARGS='aria --update-snapshots'` takes over what changed; look at the difference before it is committed.
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { admin, alive, createEnvironment, expect, signIn, startSession, test } from '../fixtures';
import { Groundwork } from '../groundwork';

/** The same for every run on every machine: ids, times, sizes and the machine's name are left out. */
function told(snapshot: string): string {
  let text = snapshot
    .replaceAll(hostname(), 'HOST')
    .replace(/\bsha256:[0-9a-f]+/g, 'sha256:ID')
    .replace(/\b([a-z]+_)?([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/g, 'ID');
  // Times and the short forms of ids are said once more in the names of rows and buttons.
  for (const [, kind, word] of text.matchAll(/- (time|code): "?([^"\n]+)"?$/gm)) {
    if (kind === 'time') text = text.replaceAll(word, 'TIME');
    else if (/^[0-9a-f]{8}$/.test(word)) text = text.replaceAll(`code: "${word}"`, 'code: ID').replaceAll(word, 'ID');
  }
  return `${text
    .replace(/(?<!level=)\b\d[\d.,:]*\b(?!\])/g, '0')
    .replace(/\b0 (ms|s|min)\b/g, '0 s')
    .replaceAll('0 s 0 s', '0 s')}\n`;
}

test('every page tells assistive technology what it told before', async ({ page }) => {
  test.setTimeout(300_000);
  const groundwork = new Groundwork();
  const heard = async (path: string, name: string): Promise<void> => {
    await page.goto(`${groundwork.url}${path}`);
    await alive(page);
    // What the page asks for when it is alive comes late on a slow machine: what is known is waited for, and stays.
    const file = test.info().snapshotPath(`${name}.yml`, { kind: 'snapshot' });
    const known = existsSync(file) ? readFileSync(file, 'utf8') : '';
    let last = '';
    const rests = async () => {
      const before = last;
      last = told(await page.getByRole('main').ariaSnapshot());
      return last === before && last === known;
    };
    // What differs is shown better below.
    await expect.poll(rests, { timeout: 10_000 }).toBe(true).catch(() => {});
    expect.soft(last).toMatchSnapshot(`${name}.yml`);
  };
  try {
    await groundwork.start({ GROUNDWORK_ADMIN_EMAIL: admin.email, GROUNDWORK_ADMIN_PASSWORD: admin.password });
    await heard('/sign-in', 'sign-in');
    await signIn(page, groundwork.url);
    await heard('/environments', 'environments-none');
    await heard('/environments/new', 'environment-new');

    await createEnvironment(page, groundwork.url, { name: 'failing', script: 'echo first\nmissing-command', test: true });
    await expect(page.getByText('Setup failed').first()).toBeVisible({ timeout: 60_000 });
    const failed = await page.locator('a[href*="/runs/"]:not([href$="log.txt"])').first().getAttribute('href');
    await heard(failed ?? '', 'run-failed');

    await createEnvironment(page, groundwork.url, { name: 'passing', script: 'echo one', test: true });
    await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
    const passing = new URL(page.url()).pathname;
    await page.getByLabel('Setup script').fill('echo two');
    await page.getByRole('button', { name: 'Save environment' }).click();
    await expect(page.getByText('Saved.')).toBeVisible();
    await heard(passing, 'environment-stale');
    await heard(`${passing}/history?compare=1`, 'history');
    await heard(`${passing}/delete`, 'environment-delete');

    await createEnvironment(page, groundwork.url, { name: 'ready', script: 'true', test: true });
    await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
    await page.goto(`${groundwork.url}/environments`);
    await alive(page);
    await page.getByRole('row', { name: /ready/ }).getByRole('button', { name: /Actions/ }).click();
    await startSession(page, page.getByRole('button', { name: 'Start session' }));
    const session = new URL(page.url()).pathname;
    await expect(page.getByRole('status').getByText('Running')).toBeVisible({ timeout: 60_000 });
    // A terminal that still comes would be refused, which browsers note.
    await expect(page.locator('session-terminal[data-ready]')).toBeVisible({ timeout: 30_000 });
    await page.getByRole('button', { name: 'Stop' }).click();
    await expect(page.getByText('It is stopped.')).toBeVisible({ timeout: 60_000 });
    await heard(session, 'session-stopped');
    await heard('/sessions', 'sessions');
    await heard('/environments', 'environments');

    await heard('/members', 'members');
    await heard('/api-keys', 'api-keys');
    await heard('/workers', 'workers');
    await heard('/audit', 'audit');
    await heard('/account', 'account');
    await heard('/api', 'api');
    await heard('/nothing-here', 'not-found');
  } finally {
    await groundwork.remove();
  }
});
