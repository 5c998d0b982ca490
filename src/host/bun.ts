// `npm run start:bun`: serves the app on Bun.
import { writeToEnd } from './log-writer.ts'
import { scheduleEveryMinute } from './schedule.ts'
import { start } from './start.ts'

/** Bun's `process.stdout` loses what a slow reader has not taken when the process ends. Node's waits for the reader. */
const output = { fd: 1, write: (text: string) => writeToEnd(1, text) }

await start({ schedule: scheduleEveryMinute, output })
