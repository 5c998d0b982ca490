// The rules of reports that are functions of the database, called directly.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { IMAGE_SOURCES } from '../../../src/hosting/registry/registry-credentials.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type RevisionStatus, revisionStatuses, sources } from '../../../src/protocol/parts.schema.ts'
import { getApp, unusedId } from '../../support/app.ts'
import { findReportPath, type MovingState, movingStates } from '../../support/report-path.ts'
import { builtSources, canFollow } from '../../support/revision-steps.ts'

async function select(expression: ReturnType<typeof sql>): Promise<unknown> {
  const [[row]] = (await runAsSystem(getApp().database, sql`select to_json(${expression})`)) as [[[string | null]]]
  return JSON.parse(row[0] ?? 'null')
}
const deploymentRow = (members: object) =>
  sql`jsonb_populate_record(null::deployments, ${JSON.stringify(members)}::jsonb)`
const revisionRow = (members: object) => sql`jsonb_populate_record(null::revisions, ${JSON.stringify(members)}::jsonb)`

describe('the statuses that follow from a report', () => {
  it.each([
    ['AWAITING_BUILD', 'building', ['BUILDING']],
    ['AWAITING_BUILD', 'deployed', ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED']],
    ['BUILDING', 'built', ['AWAITING_DEPLOY']],
    ['AWAITING_DEPLOY', 'built', []],
    ['AWAITING_DEPLOY', 'deployed', ['DEPLOYING', 'DEPLOYED']],
    ['DEPLOYING', 'building', []],
    ['DEPLOYED', 'deployed', []],
    ['DEPLOYED', 'failed', null],
    ['BUILDING', 'failed', ['BUILD_FAILED']],
    ['AWAITING_DEPLOY', 'failed', ['DEPLOY_FAILED']],
    ['BUILD_FAILED', 'failed', []],
    ['BUILD_FAILED', 'deployed', null],
    ['UNKNOWN', 'deployed', ['DEPLOYED']],
    ['UNKNOWN', 'deploying', []],
    ['UNKNOWN', 'failed', ['DEPLOY_FAILED']],
    ['INTERRUPTED', 'deployed', null],
    ['SKIPPED', 'building', null],
    ['QUEUED', 'building', null],
  ] as [RevisionStatus, MovingState, RevisionStatus[] | null][])(
    'lead from %s by a report of %s through %j',
    async (from, state, expected) => {
      expect(await findReportPath(from, state)).toEqual(expected)
    },
  )

  it('are steps that the lifecycle of every source allows', async () => {
    let paths = 0
    for (const status of revisionStatuses)
      for (const state of movingStates) {
        const path = await findReportPath(status, state)
        if (path) paths++
        for (const source of sources)
          for (const [i, to] of (path ?? []).entries()) {
            // No revision of a source without a build has these statuses.
            if (!builtSources.includes(source) && (status === 'AWAITING_BUILD' || status === 'BUILDING')) continue
            expect(canFollow(source, path![i - 1] ?? status, to), `${source} ${status} ${path}`).toBe(true)
          }
      }
    expect(paths).toBeGreaterThan(25)
  })
})

describe('a report is refused', () => {
  const [id, revision_id] = [unusedId(), unusedId()]
  const served = { id, generation: 3, in_flight_revision_id: revision_id }
  const deleted = { ...served, deleting_at: '2026-11-01T00:00:00Z' }
  const deploying = { id: revision_id, status: 'DEPLOYING' }
  const noRow = {}
  it.each([
    ['never: an unknown deployment is removed', 'removed', 3, noRow, noRow, null],
    ['of a deployment that was never served', 'serving', 3, noRow, noRow, 'deployment_unknown'],
    ['of a later generation', 'serving', 4, served, noRow, 'generation_unknown'],
    ['that a deployment is removed which is wanted', 'removed', 3, served, noRow, 'still_wanted'],
    ['that it is removed before the agent knows that', 'removed', 2, deleted, noRow, 'generation_passed'],
    ['never: it is removed as wanted', 'removed', 3, deleted, noRow, null],
    ['of a revision that does not exist', 'deploying', 3, served, noRow, 'revision_unknown'],
    ['of a revision that waits', 'deploying', 3, served, { ...deploying, status: 'QUEUED' }, 'revision_unknown'],
    ['of a revision that has ended', 'deployed', 3, served, { ...deploying, status: 'SKIPPED' }, 'revision_ended'],
    ['never: the revision in flight moves', 'deployed', 2, served, deploying, null],
    ['that the revision in flight stopped', 'interrupted', 3, served, deploying, 'still_wanted'],
    ['never: a database is ready in an old generation', 'database_ready', 1, served, deploying, null],
    ['that an old generation is in effect', 'serving', 2, served, deploying, 'generation_passed'],
  ] as const)('%s', async (_, state, generation, deployment, revision, code) => {
    const rows = sql`${deploymentRow(deployment)}, ${revisionRow(revision)}`
    expect(await select(sql`report_code(${state}, ${generation}, ${revision_id}::uuid, ${rows}, false)`)).toBe(code)
  })

  it('if its deployment was served and is deleted: it is stale', async () => {
    const rows = sql`${deploymentRow({})}, ${revisionRow({})}`
    expect(await select(sql`report_code('serving', 1, null, ${rows}, true)`)).toBe('generation_passed')
  })
})

describe('a report resolves', () => {
  const digest = `@sha256:${'a'.repeat(64)}`
  it.each([
    ['shop:1', `docker.io/library/shop:1${digest}`, true],
    ['docker.io/acme/shop:1', `acme/shop${digest}`, true],
    ['registry.example:5000/shop', `registry.example:5000/shop${digest}`, true],
    ['shop:1', `other${digest}`, false],
    ['registry.example/shop:1', `shop${digest}`, false],
  ])('the image %s to %s: %s', async (named, resolved, isTaken) => {
    for (const source of sources) {
      const row = revisionRow({ source, source_revision_config: { image_uri: named } })
      const config = await select(sql`resolved_config(${row}, '{"sha": "abc"}', ${resolved})`)
      const takes = isTaken || !IMAGE_SOURCES.includes(source)
      expect([source, config]).toEqual([source, { repo_commit_sha: 'abc', ...(takes && { image_uri: resolved }) }])
    }
  })
})

describe('a report reaches its generation', () => {
  const [first, second] = [unusedId(), unusedId()]
  const idle = { in_flight_revision_id: null, active_revision_id: first }
  const flying = { in_flight_revision_id: second, active_revision_id: first }
  it.each([
    ['with the end of the revision in flight', 'deployed', second, flying, 3],
    ['not with the end of another one', 'failed', first, flying, null],
    ['with any end while nothing is in flight', 'interrupted', second, idle, 3],
    ['not with a step', 'deploying', second, flying, null],
    ['with what serves', 'serving', first, idle, 3],
    ['not with what serves while a revision is in flight', 'serving', first, flying, null],
    ['not with another one that serves', 'serving', second, idle, null],
    ['with nothing where nothing is to serve', 'serving', null, { in_flight_revision_id: null }, 3],
  ])('%s', async (_, state, revision, deployment, reached) => {
    const call = sql`reached_generation(${state}, 3, ${revision}::uuid, ${deploymentRow(deployment)})`
    expect(await select(call)).toBe(reached)
  })
})
