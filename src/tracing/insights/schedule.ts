// Schedules the next job of a config: at a firing of its cron, but never sooner than the installation allows.
import type { HostServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { type Cron, CronFault, nextFiring, parseCron, smallestGapSeconds } from '../../protocol/cron.ts'

export const nowOf = ({ platform }: HostServices): number => platform.clock.now()

/** Refuses a cron that fires more often than jobs may start. */
export function checkCron(ctx: HostServices, text: string): Cron {
  const cron = readCron(text)
  const gap = smallestGapSeconds(cron, nowOf(ctx))
  const least = ctx.config.insightsIntervalSeconds
  if (gap < least)
    throw fail('schedule_too_frequent', {
      about: `\`${text.trim()}\` fires ${gap} seconds apart, and ${least} seconds are the least`,
      errors: [{ type: 'schedule_too_frequent', loc: ['body', 'schedule_cron'], msg: `${gap} is less than ${least}` }],
    })
  return cron
}

function readCron(text: string): Cron {
  try {
    return parseCron(text)
  } catch (error) {
    if (!(error instanceof CronFault)) throw error
    const fault = { type: 'cron_invalid', loc: ['body', 'schedule_cron'], msg: error.message }
    throw fail('invalid_request', { detail: `\`schedule_cron\` ${error.message}.`, errors: [fault] })
  }
}

/** The first firing after now that is far enough from the last start. Null without one, which a cron always has. */
export function nextStart(ctx: HostServices, cron: Cron, lastStart: string | null): string | null {
  const earliest = lastStart === null ? 0 : Date.parse(lastStart) + ctx.config.insightsIntervalSeconds * 1000
  const next = nextFiring(cron, Math.max(nowOf(ctx) + 1, earliest))
  return next === null ? null : new Date(next).toISOString()
}

/**
 * Describes the pace of a config that was saved when the installation allowed more. Null if it starts at every firing.
 */
export function describePace(ctx: HostServices, text: string): string | null {
  const least = ctx.config.insightsIntervalSeconds
  const gap = smallestGapSeconds(parseCron(text), nowOf(ctx))
  return gap >= least
    ? null
    : `It fires ${gap} seconds apart, but jobs start ${least} seconds apart at least: the firings between are left out.`
}
