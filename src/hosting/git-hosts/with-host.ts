// Runs work against an integration's git host outside of a request. Stores a token minted on the way, and what the host
// refuses.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { setTokenColumns } from './credentials.ts'
import type { Githost, Integration } from './githost.ts'
import { createGithost } from './githost-factory.ts'
import { clearProblem, recordRefusal, refusalOf, type WorkKind } from './integration-problems.ts'

type HostCaller = { services: Services; origin: string }

export async function withHost<T>(
  { services, origin }: HostCaller,
  row: Integration,
  work: (host: Githost) => Promise<T>,
  kind: WorkKind = 'repository',
): Promise<T> {
  const host = createGithost(services, origin, row)
  try {
    return await watchRefusals(services, row, kind, () => work(host))
  } finally {
    const minted = host.mintedToken()
    if (minted) {
      const assignments = await setTokenColumns(services.sealer, row, minted)
      const statement = sql`update integrations i set ${assignments} where i.id = ${row.id}::uuid`
      await runAsSystem(services.database, statement)
    }
  }
}

export async function watchRefusals<T>(
  services: Services,
  row: Integration,
  kind: WorkKind,
  work: () => Promise<T>,
): Promise<T> {
  try {
    const result = await work()
    // By SSH, only an agent finds out.
    if (row.problem?.work === kind && !row.ssh) await clearProblem(services, row, kind)
    return result
  } catch (error) {
    const refusal = refusalOf(error)
    if (refusal) await recordRefusal(services, row, refusal, kind)
    throw error
  }
}
