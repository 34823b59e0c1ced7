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
});
