import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { admin, alive, createEnvironment, expect, signIn, test } from '../fixtures';

function quantile(values: number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

test('a line written in the sandbox is on the screen', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.addInitScript(() => {
    const seen: Record<string, number> = {};
    (window as unknown as { seen: Record<string, number> }).seen = seen;
    new MutationObserver(() => {
      for (const row of document.querySelectorAll('.log-row')) {
        const found = /at=(\d+)/.exec(row.textContent ?? '');
        if (found && !(found[1] in seen)) seen[found[1]] = Date.now();
      }
    }).observe(document, { childList: true, subtree: true, characterData: true });
  });
  await createEnvironment(page, groundwork.url, {
    name: 'latency',
    script: 'sleep 2\nfor i in $(seq 60); do echo "at=$(date +%s%3N)"; sleep 0.1; done',
    test: true,
  });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  const seen = await page.evaluate(() => (window as unknown as { seen: Record<string, number> }).seen);
  const delays = Object.entries(seen).map(([written, shown]) => shown - Number(written));
  console.log(`line written to line on the screen: ${delays.length} lines, p50 ${quantile(delays, 0.5)} ms, p95 ${quantile(delays, 0.95)} ms`);
  expect(delays.length).toBeGreaterThan(30);
});

test('the table with 2,000 environments', async ({ page, groundwork }) => {
  appendFileSync(
    join(groundwork.data, 'config.toml'),
    '\n[rate_limit]\nkey_per_second = 100000\nkey_burst = 100000\naddress_per_second = 100000\naddress_burst = 100000\n',
  );
  await groundwork.stop();
  await groundwork.start();
  const key = groundwork.command('admin', 'create-api-key', '--email', admin.email, '--role', 'developer');
  for (let i = 0; i < 2_000; i += 20) {
    await Promise.all(
      Array.from({ length: 20 }, async (_, j) => {
        const answer = await fetch(`${groundwork.url}/managed-agents/v1/environments`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ name: `environment ${i + j}`, setup: { script: `echo ${i + j}` } }),
        });
        expect(answer.status).toBe(200);
      }),
    );
  }
  await signIn(page, groundwork.url);
  const cookie = (await page.context().cookies()).map((c) => `${c.name}=${c.value}`).join('; ');
  const times: number[] = [];
  let bytes = 0;
  for (let i = 0; i < 25; i++) {
    const start = performance.now();
    const answer = await fetch(`${groundwork.url}/environments`, { headers: { cookie, accept: 'text/html' } });
    bytes = (await answer.arrayBuffer()).byteLength;
    expect(answer.status).toBe(200);
    if (i >= 5) times.push(performance.now() - start);
  }
  console.log(`table of 2,000, server-rendered: p50 ${quantile(times, 0.5).toFixed(0)} ms, p95 ${quantile(times, 0.95).toFixed(0)} ms, ${(bytes / 1024).toFixed(0)} KiB of HTML`);
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  const sent = await page.evaluate(() =>
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].reduce(
      (sum, entry) => sum + (entry as PerformanceResourceTiming).encodedBodySize,
      0,
    ),
  );
  console.log(`first load of that table: ${(sent / 1024).toFixed(0)} KiB compressed`);

  // From a key to the frame that shows what it found.
  await page.evaluate(() => {
    const took: number[] = [];
    (window as unknown as { took: number[] }).took = took;
    addEventListener(
      'input',
      () => {
        const start = performance.now();
        requestAnimationFrame(() => setTimeout(() => took.push(performance.now() - start)));
      },
      { capture: true },
    );
  });
  await page.getByRole('searchbox').pressSequentially('environment 1995', { delay: 60 });
  await expect(page.getByRole('link', { name: 'environment 1995', exact: true })).toBeVisible();
  const took = await page.evaluate(() => (window as unknown as { took: number[] }).took);
  console.log(`search among 2,000 rows, key to frame: ${took.length} keys, p50 ${quantile(took, 0.5).toFixed(0)} ms, most ${Math.max(...took).toFixed(0)} ms`);
});

test('the table on a slow machine and line', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'first' });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Network.enable');
  await cdp.send('Network.setCacheDisabled', { cacheDisabled: true });
  await cdp.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 20,
    downloadThroughput: (10 * 1_000_000) / 8,
    uploadThroughput: (10 * 1_000_000) / 8,
  });
  await cdp.send('Emulation.setCPUThrottlingRate', { rate: 4 });
  await page.addInitScript(() => {
    const seen = { paint: 0, shift: 0 };
    (window as unknown as { seen: typeof seen }).seen = seen;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.paint = Math.max(seen.paint, entry.startTime);
    }).observe({ type: 'largest-contentful-paint', buffered: true });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.shift += (entry as unknown as { value: number }).value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
  const paints: number[] = [];
  const lives: number[] = [];
  let shift = 0;
  for (let i = 0; i < 7; i++) {
    await page.goto(`${groundwork.url}/environments`);
    await alive(page);
    lives.push(await page.evaluate(() => performance.now()));
    const seen = await page.evaluate(() => (window as unknown as { seen: { paint: number; shift: number } }).seen);
    paints.push(seen.paint);
    shift = Math.max(shift, seen.shift);
  }
  console.log(`CPU slowed four times, 10 Mbit/s: largest contentful paint p50 ${quantile(paints, 0.5).toFixed(0)} ms, most ${Math.max(...paints).toFixed(0)} ms; alive after p50 ${quantile(lives, 0.5).toFixed(0)} ms; layout shift ${shift.toFixed(3)}`);
  expect(quantile(paints, 0.5)).toBeLessThan(1_000);
});
