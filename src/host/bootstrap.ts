// `npm run bootstrap`: creates the first organization, workspace and API key of a database, and prints the key.
import { parseArgs } from 'node:util'
import type * as z from 'zod'
import { readSystemUrl } from '../env.ts'
import { Email, Name } from '../people/access/schema.ts'
import { openHome } from './home-folder.ts'

const USAGE = `npm run bootstrap -- --organization NAME [--workspace NAME] [--email ADDRESS]... [--organization-key]
                      [--platform-listener NAME]

Finds or creates the organization and the workspace in the database of DATABASE_SYSTEM_URL or DATABASE_URL, or of the
running npm run dev. Adds the people of --email as Admins, with a link for each that signs in once within 15 minutes,
and prints a new Admin key for the workspace, or for the whole organization with --organization-key. With
--platform-listener it also finds or creates a listener that serves every workspace of the installation, and prints a
key for its agent.`

async function main() {
  const { values } = parseArgs({
    options: {
      organization: { type: 'string' },
      workspace: { type: 'string', default: 'Default' },
      email: { type: 'string', multiple: true, default: [] },
      'organization-key': { type: 'boolean', default: false },
      'platform-listener': { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return console.log(USAGE)
  if (!values.organization) throw new Error('--organization is required. Give the name of the organization.')
  const input = {
    organization: parseArgument('organization', Name, values.organization),
    workspace: parseArgument('workspace', Name, values.workspace),
    emails: values.email.flatMap(list => list.split(',')).map(address => parseArgument('email', Email, address)),
    scope: values['organization-key'] ? ('organization' as const) : ('workspace' as const),
  }
  const { DATABASE_SYSTEM_URL, DATABASE_URL = openHome().read('database-url') } = process.env
  if (!DATABASE_SYSTEM_URL && !DATABASE_URL)
    throw new Error('Set DATABASE_SYSTEM_URL, or start `npm run dev` to use its database.')

  const url = readSystemUrl({ DATABASE_SYSTEM_URL, DATABASE_URL })
  // Loaded after the arguments are valid: it takes a second.
  const { openSystemDatabase } = await import('./database-connection.ts')
  const { bootstrap } = await import('../people/access/bootstrap.ts')
  const { createOperatorLink, linkUrl } = await import('../people/sign-in/links.ts')
  const { registerPlatformListener } = await import('../hosting/listeners/platform-listener.ts')
  const name = DATABASE_SYSTEM_URL ? 'DATABASE_SYSTEM_URL' : 'DATABASE_URL'
  const { database, close } = await openSystemDatabase(url, name)
  try {
    const { api_key, organization_id, tenant_id } = await bootstrap(database, input)
    console.log(`Organization  ${organization_id}  ${input.organization}
Workspace     ${tenant_id}  ${input.workspace}
API key       ${api_key}

Store the key now: it is shown only once. Send it in X-Api-Key with every request${
      input.scope === 'organization' ? ',\nand name the workspace in X-Tenant-Id where a request needs one' : ''
    }. Try GET /orgs/current/info.`)
    const origin = process.env.PUBLIC_URL?.replace(/\/$/, '') ?? openHome().readState()?.url ?? ''
    for (const email of input.emails) {
      const token = await createOperatorLink(database, { organization_id, email })
      if (token) console.log(`Sign-in link  ${linkUrl(origin, token)}  ${email}`)
    }
    const compute_id = values['platform-listener']
    if (!compute_id) return
    const platform = { organization_id, compute_id, compute_type: 'local' as const }
    const { listener_id, listener_key } = await registerPlatformListener(database, platform)
    console.log(`Listener      ${listener_id}  ${compute_id}
Agent key     ${listener_key}`)
  } finally {
    await close()
  }
}

function parseArgument<T>(name: string, schema: z.ZodType<T>, text: string): T {
  const parsed = schema.safeParse(text)
  if (parsed.success) return parsed.data
  throw new Error(`--${name} ${JSON.stringify(text)} is not valid: ${parsed.error.issues[0]!.message}.`)
}

main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
