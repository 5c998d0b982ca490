// Counts the round trips of requests whose id begins with `trip-`.
import type { PoolOptions } from '../../src/host/database-pools.ts'

export function makeTripCounter() {
  const trips = new Map<string, number>()
  const onTrip: NonNullable<PoolOptions['onTrip']> = ({ queries }) => {
    const params = queries.flatMap(query => query.params)
    const id = params.find((param): param is string => typeof param === 'string' && param.startsWith('trip-'))
    if (id) trips.set(id, (trips.get(id) ?? 0) + 1)
  }
  return { trips, onTrip }
}
