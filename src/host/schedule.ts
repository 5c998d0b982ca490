// What the schedule of wrangler.toml does at the edge, for hosts that have none.

const EVERY_MS = 60_000

export const scheduleEveryMinute = (work: () => Promise<unknown>): NodeJS.Timeout =>
  setInterval(() => work().catch(error => console.error(error)), EVERY_MS)
