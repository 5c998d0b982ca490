// People whose address is in INSTANCE_ADMIN_EMAILS, and how they sign in.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { createOperatorLink } from '../../src/people/sign-in/links.ts'
import { type App, getApp, send, startApp, type Tenant, unusedId } from './app.ts'
import { asSession, tokenOf } from './sessions.ts'

/** An app for which the address is that of an instance admin. */
export function startAdministeredApp(settings: Record<string, unknown> = {}) {
  const email = `${unusedId()}@example.com`
  return { email, app: startApp({ settings: { INSTANCE_ADMIN_EMAILS: JSON.stringify([email]), ...settings } }) }
}

export async function openLink(token: string, app: App = getApp()) {
  const opened = await send('POST', '/sign-in/link', { body: { token }, app })
  return asSession(tokenOf(opened)!, app)
}

/** Adds the person as a member of the organization, and signs it in by a link of the operator. */
export async function signInByOperator({ organization_id, owner }: Tenant, email: string, app: App) {
  const { body } = await owner.post('/orgs/current/members', { email })
  const token = await createOperatorLink(app.database, { organization_id, email })
  return { member_id: body.id as string, ...(await openLink(token!, app)) }
}

/** Like an identity provider that vouches for the address. */
export async function vouchFor(email: string, app: App, isVerified = true) {
  const subject = unusedId()
  const hash = unusedId()
  await runAsSystem(
    app.database,
    sql`select set_config('app.request_id', 'vouch', true), set_config('app.request', '{}', true)`,
    sql`
      select sign_in_by_identity(
        'https://login.example.com', ${subject}, ${email}, ${isVerified}, null, null, '{}', ${hash}, null
      )`,
  )
}
