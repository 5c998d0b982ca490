// The steps that the functions of the database take, collected from them, are those that are allowed.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import {
  DEADLINES,
  inFlightStates,
  LISTENER_LOST,
  terminalStates,
  waitingStates,
} from '../../../src/hosting/deployments/lifecycle.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type RevisionStatus, revisionStatuses, type Source, sources } from '../../../src/protocol/parts.schema.ts'
import { getApp } from '../../support/app.ts'
import { findReportPath, movingStates } from '../../support/report-path.ts'
import { builtSources, canFollow, stepsOf } from '../../support/revision-steps.ts'
import * as fc from '../../support/seeded-fast-check.ts'

async function select<T>(query: ReturnType<typeof sql>): Promise<T> {
  const [[[value]]] = (await runAsSystem(getApp().database, query)) as [[[T]]]
  return value
}
const findStartState = (source: Source) => select<RevisionStatus>(sql`select start_state(${source})`)
const isInQueue = (status: RevisionStatus) => select<boolean>(sql`select is_in_queue(${status})`)

/** A newer revision takes the place of one that waits; revision-queue.test.ts does that. */
const SUPERSEDED: [RevisionStatus, RevisionStatus][] = [
  ['CREATING', 'SKIPPED'],
  ['QUEUED', 'SKIPPED'],
]

/** The steps from the states that a revision of the source can be in. */
async function collectSteps(source: Source): Promise<Map<RevisionStatus, RevisionStatus[]>> {
  const steps = new Map<RevisionStatus, Set<RevisionStatus>>()
  const pending: RevisionStatus[] = ['CREATING', 'QUEUED']
  for (let from = pending.shift(); from; from = pending.shift()) {
    if (steps.has(from)) continue
    const next = new Set<RevisionStatus>()
    if (from === 'QUEUED') next.add(await findStartState(source))
    if (await isInQueue(from)) next.add('INTERRUPTED')
    const deadline = DEADLINES[from]
    if (deadline) next.add(deadline.becomes)
    if (from === 'DEPLOYING') next.add(LISTENER_LOST.becomes)
    for (const [state, to] of SUPERSEDED) if (state === from) next.add(to)
    for (const state of movingStates) {
      const [first] = (await findReportPath(from, state)) ?? []
      if (first) next.add(first)
    }
    steps.set(from, next)
    pending.push(...next)
  }
  return new Map([...steps].map(([from, next]) => [from, [...next]]))
}

describe.each(sources)('a revision of source %s', source => {
  it('moves from each state only to the allowed states', async () => {
    const steps = await collectSteps(source)
    const taken = [...steps].flatMap(([from, next]) => next.map(to => `${from}>${to}`))
    expect(taken.sort()).toEqual([...stepsOf(source)].sort())
  })

  it('reaches a terminal state on every path, without passing a state twice', async () => {
    const steps = await collectSteps(source)
    const walk = fc.array(fc.nat(), { minLength: 20, maxLength: 20 })
    fc.assert(
      fc.property(walk, fc.constantFrom<RevisionStatus>('CREATING', 'QUEUED'), (choices, first) => {
        const visited = [first]
        for (const choice of choices) {
          const next = steps.get(visited.at(-1)!)!
          if (next.length > 0) visited.push(next[choice % next.length]!)
        }
        expect(new Set(visited).size).toBe(visited.length)
        expect(terminalStates).toContain(visited.at(-1))
      }),
    )
  })

  it('starts in a state that can follow QUEUED, with a build if the source has one', async () => {
    const first = await findStartState(source)
    expect(first).toBe(builtSources.includes(source) ? 'AWAITING_BUILD' : 'AWAITING_DEPLOY')
    expect(canFollow(source, 'QUEUED', first)).toBe(true)
  })
})

it('the revisions in the queue are those that wait or are in flight', async () => {
  const queued = [...waitingStates, ...inFlightStates]
  for (const status of revisionStatuses)
    expect([status, await isInQueue(status)]).toEqual([status, queued.includes(status)])
})
