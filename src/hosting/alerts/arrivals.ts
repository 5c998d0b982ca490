// Looks at alerts right after what agents send has been answered, so that nobody waits for the schedule.
import { type AlertPoints, pauseUntilAborted } from '../../kernel/http/context.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import { createShares } from '../../kernel/limits/shares.ts'
import { lookAtDue, lookAtMetrics } from './look.ts'

/** Arrivals within this time share a look. */
const GATHER_MS = 200
/** A host may drop the request that gathers. */
const GATHER_EXPIRY_MS = 5000
/** Looks at metrics at the same time. A sender has one, so that one who sends much does not hold the database. */
const MAX_CONCURRENT = 4
const MAX_WAITING = 5

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
  const looks = createShares({ capacity: MAX_CONCURRENT, factor: 0, maxWaitingPerGroup: MAX_WAITING })
  const lookAtArrived = async ({ points, isEarly, from }: AlertPoints) => {
    // Early points come again.
    const release = isEarly ? looks.tryTake(from) : await looks.take(from)
    if (!release) return
    try {
      const ids = [...new Set(points.map(({ deployment_id }) => deployment_id))]
      await lookAtMetrics(services, ids, isEarly ? points : [])
    } finally {
      release()
    }
  }
  return async arrived => {
    try {
      await (arrived ? lookAtArrived(arrived) : lookSoon())
    } catch (error) {
      services.platform.log({ level: 'warn', error: 'alerts not looked at', message: String(error) })
    }
  }
}
