// Compares acknowledged writes with the database: each patch has a mark of its own, which becomes its revision's image.

import pg from 'pg'
import { makeImageConfig } from '../../support/deployment-bodies.ts'
import { type Answer, type Client, createDeployments } from './retrying-client.ts'

type Balance = {
  acknowledged: number
  lost: number
  double: number
  gaps: number
  /** Events of patches, less the revisions that patches created. */
  surplusEvents: number
  /** Marks in the database that no patch sent. */
  unknown: number
}

export async function openLedger(client: Client, deployments = 16) {
  const ids = await createDeployments(client, deployments)
  const acknowledged = new Set<string>()
  const sent = new Set<string>()
  let count = 0
  return {
    ids,
    acknowledged,
    async patch(id = ids[count % ids.length]!): Promise<Answer> {
      const mark = `mark-${count++}`
      sent.add(mark)
      const answer = await client.sendUntilAnswered('PATCH', `/v2/deployments/${id}`, {
        ...makeImageConfig(mark),
        secrets: [{ name: 'TOKEN', value: mark }],
      })
      if (answer.status === 200) acknowledged.add(mark)
      return answer
    },
    /** Reads on its own connection, not through the app. */
    async balance(url: string): Promise<Balance> {
      const database = new pg.Client({ connectionString: url })
      await database.connect()
      try {
        const query = async (text: string) => (await database.query({ text, values: [ids] })).rows
        const marks = await query(`
          select split_part(source_revision_config ->> 'image_uri', ':', 2) as mark, count(*)::int as times
          from revisions
          where deployment_id = any($1) and number > 1
          group by 1`)
        const times = new Map(marks.map(({ mark, times }) => [mark as string, times as number]))
        const [gaps] = await query(`
          select count(*)::int as n
          from deployments d
          where id = any($1) and (
          revisions <> (select max(number) from revisions r where r.deployment_id = d.id) or
          revisions <> (select count(*) from revisions r where r.deployment_id = d.id) or
          revisions <> (select count(*) from deployment_secrets s where s.deployment_id = d.id) or
          version <> revisions or latest_revision_id is distinct from
            (select id from revisions r where r.deployment_id = d.id and number = d.revisions) or
          1 < (select count(*) from revisions r where r.deployment_id = d.id and status = 'QUEUED'))`)
        const [events] = await query(`
          select count(*)::int as n
          from events
          where type = 'deployment.patched' and subject_id = any($1)`)
        const [journalGaps] = await query(`
          select count(*)::int as n
          from journals j
          where scope_id = (select tenant_id from deployments where id = any($1) limit 1)
            and seq <> (select count(*) from events e where e.scope_id = j.scope_id)`)
        const created = [...times.values()].reduce((sum, n) => sum + n, 0)
        return {
          acknowledged: acknowledged.size,
          lost: [...acknowledged].filter(mark => !times.has(mark)).length,
          double: [...times.values()].filter(n => n > 1).length,
          gaps: gaps.n + journalGaps.n,
          surplusEvents: events.n - created,
          unknown: [...times.keys()].filter(mark => !sent.has(mark)).length,
        }
      } finally {
        await database.end()
      }
    },
  }
}

export const isBalanced = ({ lost, double, gaps, surplusEvents, unknown }: Balance): boolean =>
  lost + double + gaps + unknown === 0 && surplusEvents === 0

export function formatBalance({ acknowledged, lost, double, gaps, surplusEvents }: Balance): string {
  const faults = [
    ...(gaps ? [`${gaps} numbers with gaps`] : []),
    ...(surplusEvents ? [`${Math.abs(surplusEvents)} events too ${surplusEvents > 0 ? 'many' : 'few'}`] : []),
  ]
  return [`${acknowledged} writes: ${lost} lost`, `${double} double`, ...faults].join(', ')
}
