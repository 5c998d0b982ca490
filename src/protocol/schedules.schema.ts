// Schemas of what a schedule says, in requests, in documents and in the configuration file of a source.
import * as z from 'zod'
import { CronFault, isTimeZone, parseCron } from './cron.ts'
import { plainMembers } from './schedule-members.schema.ts'
import { boundedText } from './wire.ts'

const MAX_CRON_LENGTH = 200
export const Cron = boundedText(MAX_CRON_LENGTH)
  .transform((text, check) => {
    try {
      parseCron(text)
      return text.trim()
    } catch (error) {
      if (!(error instanceof CronFault)) throw error
      check.addIssue({ code: 'custom', message: error.message })
      return z.NEVER
    }
  })
  .meta({
    type: 'string',
    pattern: '^\\s*(\\S+\\s+){4}\\S+\\s*$',
    description: 'Five fields: minute, hour, day of the month, month, day of the week.',
    example: '30 3 * * *',
  })
export const TimeZone = boundedText(64)
  .refine(isTimeZone, { error: 'must be the name of a time zone, such as Europe/Berlin' })
  .meta({ description: 'Of the IANA database.', example: 'Europe/Berlin' })
/** All but the name, the command and the switch. */
export const timingMembers = { time_zone: TimeZone, ...plainMembers }
