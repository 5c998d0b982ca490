// `npm run start:bun`: serves the app on Bun.
import { scheduleEveryMinute } from './schedule.ts'
import { start } from './start.ts'

await start({ schedule: scheduleEveryMinute })
