import type { Page } from '@playwright/test';
import { Proxy, Wait } from '../groundwork';
import { accessible, alive, another, createEnvironment, expect, signIn, test } from '../fixtures';

/** The log as the page has it: what it copies, with what it has received since it was opened. */
async function copied(page: Page): Promise<string> {
  await page.evaluate(() => navigator.clipboard.writeText(''));
  await page.getByRole('button', { name: 'Copy', exact: true }).click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).not.toBe('');
  return (await page.evaluate(() => navigator.clipboard.readText())).replace(/\r\n/g, '\n');
}

/** The log as the server has it. */
async function stored(page: Page): Promise<string> {
  const link = page.getByRole('link', { name: 'Download' });
  const answer = await page.request.get(new URL((await link.getAttribute('href')) ?? '', page.url()).href);
  expect(answer.status()).toBe(200);
  return answer.text();
}

const log = (page: Page) => page.getByRole('region', { name: 'Log', exact: true });
const line = (page: Page, number: number) => log(page).locator(`#L${number}`);
/** A long log: some lines of ours, then a marker and its lines. */
const long = 'echo start\nseq 1 5000 | sed "s/^/number /"\necho >&2 trouble\nprintf "\\033[31mred %0300d\\033[0m\\n" 7\necho the end';

async function longRun(page: Page, url: string): Promise<void> {
  await createEnvironment(page, url, { name: 'long', script: long, test: true });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await page.getByRole('link', { name: 'Open its page' }).click();
  await expect(page).toHaveURL(/\/runs\//);
  await expect(page.getByRole('heading', { level: 1, name: /^Setup run / })).toBeVisible();
}

/** Where the reader is in the log, once it has come to rest there. */
async function rests(page: Page): Promise<number> {
  const tops: number[] = [];
  const same = async () => {
    tops.unshift(await log(page).evaluate((node) => node.scrollTop));
    return tops[0] === tops[1] && tops[1] === tops[2];
  };
  await expect.poll(same, { intervals: [100] }).toBe(true);
  return tops[0];
}

test.beforeEach(async ({ context }) => context.grantPermissions(['clipboard-read', 'clipboard-write']));

test('twenty cut connections, a reload and a restart of the server lose no line and double none', async ({
  page,
  browser,
  groundwork,
}) => {
  test.setTimeout(150_000);
  const proxy = new Proxy(groundwork);
  await proxy.start();
  await signIn(page, proxy.url);
  const wait = new Wait();
  await createEnvironment(page, proxy.url, {
    name: 'cut',
    // Also a line that is written bit by bit: it is shown as far as it goes, and extended.
    script: `printf "bit"; for i in $(seq 20); do printf " $i"; sleep 0.3; done; echo\n${wait.during('echo "n=$((++n))"; sleep 0.05')}`,
    test: true,
  });
  const state = page.locator('.log-state');
  await expect(log(page).getByText(/bit 1 2/)).toBeVisible({ timeout: 30_000 });
  await expect(state).toHaveText('Live');
  // Another viewer, whom nobody disturbs.
  const other = await another(browser);
  await signIn(other.page, groundwork.url);
  await other.page.goto(page.url().replace(proxy.url, groundwork.url));
  await expect(log(other.page).getByText(/bit 1 2/)).toBeVisible();

  while (proxy.cut < 20) {
    await expect.poll(() => proxy.carried).toBe(true);
    if (proxy.cutAll() && proxy.cut % 5 === 0) await expect(state).toHaveText('Live');
  }
  await expect(log(page).getByText(/^n=\d\d+$/).last()).toBeVisible();
  // The page is the one that was opened first: it has seen every cut.
  const before = await copied(page);
  expect(before.split('\n').filter((text) => text === 'n=1')).toHaveLength(1);
  await groundwork.stop();
  await expect(state).toHaveText('Reconnecting…');
  await groundwork.start();
  // The run is tried again, from its beginning.
  await expect(async () => wait.end()).toPass({ timeout: 60_000 });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await expect(state).toHaveText('Complete');
  const whole = await stored(page);
  expect(await copied(page)).toBe(whole);
  // Of both tries no number is missing, and none is doubled.
  const tries = whole.split('(try 2).').map((text) => text.split('\n').filter((told) => told.startsWith('n=')));
  expect(tries.map((numbers) => numbers.map((_, index) => `n=${index + 1}`))).toEqual(tries);
  expect(tries).toHaveLength(2);
  expect(tries[0].length).toBeGreaterThan(10);
  await expect(other.page.locator('.log-state')).toHaveText('Complete', { timeout: 30_000 });
  await page.reload();
  await alive(page);
  expect(await copied(page)).toBe(whole);
  await other.context.close();
  proxy.stop();
});

test('where a proxy lets no stream through the log comes all the same', async ({ page, groundwork }) => {
  // The browser notes the connections that the story refuses.
  groundwork.cuts = true;
  const wait = new Wait();
  await page.route('**/fn/follow-run', (route) => route.abort());
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, {
    name: 'no streams',
    script: `for i in $(seq 1 4); do echo "n=$i"; sleep 1; done\nprintf "the "; ${wait.command}; echo end`,
    test: true,
  });
  await expect(log(page).getByText('n=1', { exact: true })).toBeVisible({ timeout: 30_000 });
  await expect(page.locator('.log-state')).toHaveText('Live, every 2 s');
  // A line that has only begun is there as well.
  await expect(log(page).getByText('the', { exact: true })).toBeVisible();
  wait.end();
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await expect(page.locator('.log-state')).toHaveText('Complete');
  expect(await copied(page)).toBe(await stored(page));
  expect((await stored(page)).split('\n').filter((text) => text === 'the end')).toHaveLength(1);
});

test('a long log holds few rows in the page, finds, folds, filters and links', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await longRun(page, groundwork.url);
  const view = log(page);
  await expect(view.getByText('the end', { exact: true })).toBeVisible();
  expect(await view.locator('*').count()).toBeLessThan(500);

  // Home and End, by keyboard; lines before the newest ones are fetched.
  await view.focus();
  await page.keyboard.press('Home');
  await expect(line(page, 1)).toBeInViewport();
  await expect(line(page, 1)).toContainText('Queued by');
  await expect(page.getByRole('button', { name: 'Jump to the end' })).toBeVisible();
  await page.keyboard.press('End');
  await expect(view.getByText('the end', { exact: true })).toBeInViewport();
  await expect(page.getByRole('button', { name: /Jump to the end/ })).toBeHidden();

  // Finding goes over the whole log, on the server.
  await page.keyboard.press('f');
  await page.keyboard.type('NUMBER 250');
  await expect(page.getByText('1 of 11 lines')).toBeVisible();
  await expect(view.getByText('number 250', { exact: true })).toBeInViewport();
  await expect(view.locator('mark').first()).toHaveText('number 250');
  await page.keyboard.press('Enter');
  await expect(page.getByText('2 of 11 lines')).toBeVisible();
  await expect(view.getByText('number 2500', { exact: true })).toBeInViewport();
  await page.keyboard.press('Shift+Enter');
  await expect(page.getByText('1 of 11 lines')).toBeVisible();
  await accessible(page);
  await page.keyboard.press('Escape');
  await expect(page.getByRole('search')).toBeHidden();
  await expect(view).toBeFocused();

  // Lines are picked by click and key, and the address names them.
  const found = view.locator('.log-row', { hasText: /^number 250$/ });
  await found.click({ position: { x: 20, y: 10 } });
  const number = Number((await found.getAttribute('id'))?.slice(1));
  await expect(page).toHaveURL(new RegExp(`#L${number}$`));
  await page.keyboard.press('Shift+J');
  await page.keyboard.press('Shift+ArrowDown');
  await expect(page).toHaveURL(new RegExp(`#L${number}-L${number + 2}$`));
  expect(await copied(page)).toBe('number 250\nnumber 251\nnumber 252\n');
  await line(page, number + 4).click({ position: { x: 20, y: 10 }, modifiers: ['Shift'] });
  await expect(page).toHaveURL(new RegExp(`#L${number}-L${number + 4}$`));
  await page.reload();
  await alive(page);
  await expect(line(page, number)).toBeInViewport();
  await expect(view.locator('.log-picked')).toHaveCount(5);
  await view.focus();
  await page.keyboard.press('Escape');
  await expect(view.locator('.log-picked')).toHaveCount(0);

  // Folding, one by one and all.
  await page.getByRole('button', { name: 'Fold all' }).click();
  await expect(view.getByText('5,000 lines folded')).toBeVisible();
  await expect(view.getByText('number 1', { exact: true })).toHaveCount(0);
  await view.getByRole('button', { name: 'Fold the output of script line 3' }).click();
  await expect(view.getByText('trouble', { exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Unfold all' }).click();
  await expect(view.getByText(/lines folded/)).toHaveCount(0);

  // Filtering by stream.
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByLabel('stdout').uncheck();
  await expect(view.getByText('trouble', { exact: true })).toBeVisible();
  await expect(view.getByText('the end', { exact: true })).toHaveCount(0);
  expect(await copied(page)).not.toMatch(/^number/m);
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByLabel('stdout').check();
  await page.keyboard.press('Escape');
  await view.focus();
  await page.keyboard.press('End');

  // Wrapping, numbers and times are remembered.
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByLabel('Wrap long lines').check();
  await page.getByLabel('Since the start').check();
  await page.keyboard.press('Escape');
  const tall = view.locator('.log-row', { hasText: /^red 0/ });
  await expect.poll(async () => (await tall.boundingBox())?.height ?? 0).toBeGreaterThan(40);
  await page.reload();
  await alive(page);
  await expect.poll(async () => (await tall.boundingBox())?.height ?? 0).toBeGreaterThan(40);
  await expect(view.locator('.log-text').last()).toHaveAttribute('data-t', /^\d+:\d\d$/);
  await expect(view.getByText('the end', { exact: true })).toBeInViewport();
  await accessible(page);
});

test('scrolling up lets go of the end, and says how much came since', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  const wait = new Wait();
  await createEnvironment(page, groundwork.url, {
    name: 'scrolled',
    script: `seq 1 200\n${wait.during('echo more; sleep 0.2')}`,
    test: true,
  });
  const view = log(page);
  await expect(view.getByText('more', { exact: true }).first()).toBeVisible({ timeout: 30_000 });
  await view.hover();
  await page.mouse.wheel(0, -600);
  const jump = page.getByRole('button', { name: /Jump to the end · \d+ new lines?/ });
  await expect(jump).toBeVisible();
  const top = await rests(page);
  // Lines come, and the place where the reader is stays.
  const came = async () => Number(/(\d+) new/.exec((await jump.textContent()) ?? '')?.[1]);
  const before = await came();
  await expect.poll(came).toBeGreaterThan(before + 2);
  expect(await view.evaluate((node) => node.scrollTop)).toBe(top);
  await jump.click();
  await expect(view.getByText('more', { exact: true }).last()).toBeInViewport();
  await expect(jump).toBeHidden();
  wait.end();
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await expect(page.getByText(/^Disk used/)).toBeVisible();
});

test('a run that timed out is mended with a button, and its line is gone to', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'slow', script: 'echo on\nsleep 300', timeout: 20, test: true });
  const panel = page.getByRole('region', { name: 'Setup test' });
  await expect(panel.getByText(/last output \d+ s ago/)).toBeVisible({ timeout: 30_000 });
  await expect(panel.getByText(/line 2 of 2 · 0:\d\d of 0:20/)).toBeVisible();
  await expect(panel.getByText('failed on line 2')).toBeVisible({ timeout: 60_000 });
  await expect(panel.getByText('Exit code 124').first()).toBeVisible();
  await panel.getByRole('link', { name: 'Go to line 2' }).click();
  await expect(page.getByLabel('Setup script')).toBeFocused();
  await expect.poll(() => page.evaluate(() => getSelection()?.toString())).toBe('sleep 300');
  await accessible(page);
  await panel.getByRole('button', { name: 'Raise the timeout' }).click();
  await expect(panel.getByRole('button', { name: 'Cancel run' })).toBeVisible();
  // The form, which nobody has touched, follows.
  await expect(page.getByLabel('Timeout (seconds)')).toHaveValue('60');
  await panel.getByRole('button', { name: 'Cancel run' }).click();
  await expect(panel.getByText('Cancelled.').first()).toBeVisible({ timeout: 30_000 });
});

test('without scripting the log is read page by page', async ({ browser, page, groundwork }) => {
  await signIn(page, groundwork.url);
  await longRun(page, groundwork.url);
  const address = page.url();
  const { context, page: plain } = await another(browser, false);
  await context.addCookies(await page.context().cookies());
  await plain.goto(address);
  await expect(plain.getByText('the end', { exact: true })).toBeInViewport();
  await plain.getByRole('link', { name: 'Earlier lines' }).click();
  await expect(plain.getByText('number 4700', { exact: true })).toBeVisible();
  await plain.getByRole('link', { name: 'Later lines' }).click();
  await expect(plain.getByText('the end', { exact: true })).toBeVisible();
  await context.close();
});
