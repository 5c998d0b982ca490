// Looks at alerts right after what agents send has been answered, so that nobody waits for the schedule.
import { type AlertPoints, pauseUntilAborted } from '../../kernel/http/context.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import { lookAtDue, lookAtMetrics } from './look.ts'

/** Arrivals within this time share a look. */
const GATHER_MS = 200
/** A host may drop the request that gathers. */
const GATHER_EXPIRY_MS = 5000

/** The next look of the schedule finds what this leaves. */
export function createAlertLooker(services: Services): (arrived?: AlertPoints) => Promise<void> {
  const gathering = createExpiringMap<true>(1, Date.now)
  const lookSoon = async () => {
    if (gathering.get('look')) return
    gathering.set('look', true, GATHER_EXPIRY_MS)
    await pauseUntilAborted(GATHER_MS)
    gathering.delete('look')
    await lookAtDue(services)
  }
  return async arrived => {
    try {
      if (!arrived) return await lookSoon()
      const { points, isEarly } = arrived
      const ids = [...new Set(points.map(({ deployment_id }) => deployment_id))]
      await lookAtMetrics(services, ids, isEarly ? points : [])
    } catch (error) {
      services.platform.log({ level: 'warn', error: 'alerts not looked at', message: String(error) })
    }
  }
}
