// Runs scheduled work every minute on Node, as the cron trigger of wrangler.toml does on Workers.

const EVERY_MS = 60_000

export const scheduleEveryMinute = (work: () => Promise<unknown>): NodeJS.Timeout =>
  setInterval(() => work().catch(error => console.error(error)), EVERY_MS)
