// Runs scheduled work every minute in a process, as the cron trigger of wrangler.toml does on Workers.

const EVERY_MS = 60_000

export type Schedule = {
  /** Nothing starts any more. Resolves once the work in progress has ended. */
  stop(): Promise<void>
}

/** Work that takes longer than a minute is not started twice at once. */
export function scheduleEveryMinute(work: () => Promise<unknown>): Schedule {
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running ??= work()
      .then(
        () => {},
        error => console.error(error),
      )
      .finally(() => {
        running = undefined
      })
  }, EVERY_MS)
  return {
    async stop() {
      clearInterval(timer)
      await running
    },
  }
}
