import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { sweepOldRevisions } from '../../../src/hosting/deployments/revision-retention.ts'
import { type Row, runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, withClockAhead } from '../../support/app.ts'
import { listRevisions, newDeployment } from '../../support/deployments.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'

const DAY = 24 * 60 * 60_000

/** Sweeps at every minute of an hour, since each deployment has its turn in one of them. */
const sweepAfter = async (days: number) => {
  for (let minute = 0; minute < 60; minute++)
    await withClockAhead(days * DAY + minute * 60_000, () => sweepOldRevisions(getApp()))
}
const sweepLogsAfter = (days: number) => withClockAhead(days * DAY, () => sweepOldRevisions(getApp()))

it('deletes the log of a replaced revision 90 days after its last line, and no other', async () => {
  const { id, revisionIds, openLog, path, tenant } = await newLoggedDeployment({ revisions: 3 })
  // The first one is still in flight, and the second one was superseded.
  const [inFlight, replaced] = revisionIds as [string, string]
  const now = new Date().toISOString()
  for (const revision_id of [replaced, inFlight])
    await openLog({ revision_id })([{ timestamp: now, message: `line of ${revision_id}` }])
  const readMessages = async (revision: string) =>
    (await tenant.get(`${path}?revision_id=${revision}`)).body.logs.length
  expect([await readMessages(replaced), await readMessages(inFlight)]).toEqual([1, 1])
  await sweepLogsAfter(80)
  expect([await readMessages(replaced), await readMessages(inFlight)]).toEqual([1, 1])
  await sweepLogsAfter(92)
  expect([await readMessages(replaced), await readMessages(inFlight)]).toEqual([0, 1])
  const { body } = await tenant.get(`/v2/events?subject_id=${id}&type=deployment.logs_expired`)
  expect(body.resources.map(({ data }: { data: object }) => data)).toEqual([{ lines: 1, revisions: 1 }])
})

it('deletes revisions that are older than 400 days, but not the newest hundred', async () => {
  const tenant = await newTenant()
  const { id } = await newDeployment(tenant, { secrets: [{ name: 'TOKEN', value: 'one' }] })
  await tenant.patch(`/v2/deployments/${id}`, { secrets: [{ name: 'TOKEN', value: 'two' }] })
  await tenant.patch(`/v2/deployments/${id}`, { secrets: [{ name: 'TOKEN', value: 'three' }] })
  const countOf = async (table: string) => {
    const [rows] = await runAsSystem(
      getApp().database,
      sql<Row>`select count(*) from ${sql.identifier(table)} where deployment_id = ${id}::uuid`,
    )
    return Number((rows as string[][])[0]![0])
  }
  await sweepAfter(402)
  expect(await countOf('revisions')).toBe(3)
  // Stands for 102 revisions: the hundred newest begin with the third.
  await runAsSystem(getApp().database, sql`update deployments set revisions = 102 where id = ${id}::uuid`)
  await sweepAfter(390)
  expect(await countOf('revisions')).toBe(3)
  await sweepAfter(402)
  // The first one is in flight, and its value of the secret stays with it.
  expect((await listRevisions(tenant, id)).map(({ number }) => number)).toEqual([3, 1])
  expect(await countOf('deployment_secrets')).toBe(2)
  const { body } = await tenant.get(`/v2/events?subject_id=${id}&type=deployment.revisions_expired`)
  expect(body.resources.map(({ data }: { data: object }) => data)).toEqual([{ count: 1, oldest: 2, newest: 2 }])
})
