// Speaks to /mcp with the SDKs' own clients of both eras and with the inspector, over HTTP and through `slipway mcp`.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  type Answer,
  CLIENTS,
  type ClientName,
  canBeAsked,
  connect,
  type OuterServer,
  obtainTokens,
} from '../../support/mcp-clients.ts'
import { signIn } from '../support/oauth-person.ts'
import { runForOutput } from '../support/processes.ts'
import { CACHE, check, isInstalling, runTrial, skipped } from '../support/trial.ts'
import { HOSTS, type Installation } from '../support/two-hosts.ts'

const PROJECT = join(import.meta.dirname, '../../..')
const INSPECTOR = '@modelcontextprotocol/inspector'
const INSPECTOR_VERSION = '2.12.0'
const TOOL_NAMES = [
  'whoami',
  'find_deployments',
  'get_deployment',
  'list_revisions',
  'compare_revisions',
  'read_logs',
  'list_events',
  'list_previews',
  'list_templates',
  'list_repositories',
  'plan_change',
  'apply_plan',
  'interrupt_revision',
  'make_preview',
  'change_rollout',
  'approve_preview',
  'delete_preview',
  'search_api',
  'read_api',
]
const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** Packs the command line as in the npm package. */
async function packCommandLine(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  await runForOutput({ defer: () => {} }, process.execPath, ['scripts/cli-package.ts', folder], { cwd: PROJECT })
  return join(folder, 'slipway.mjs')
}

const loginOf = ({ url, key, folder }: Installation) => ({
  SLIPWAY_URL: url,
  SLIPWAY_API_KEY: key,
  SLIPWAY_CONFIG_HOME: join(folder, 'config'),
})

async function tryClient(name: ClientName, server: OuterServer, { host, workspace }: Installation): Promise<void> {
  const way = 'url' in server ? 'HTTP' : 'slipway mcp'
  const say = (what: string, isTrue: boolean, detail?: unknown) =>
    check(`${host}, ${name}, ${way}: ${what}`, isTrue, detail === undefined ? '' : JSON.stringify(detail))
  let answer: Answer = 'decline'
  const client = await connect(name, server, () => answer)
  try {
    say(`speaks ${client.protocol}`, client.protocol.startsWith(canBeAsked(name) ? '2026' : '2025'), client.protocol)
    say('has instructions', client.instructions.includes('plan_change'))
    const names = await client.toolNames()
    say('lists all tools of an Admin', same(names, TOOL_NAMES), names)

    const me = await client.call('whoami')
    say('knows who it is', me.structuredContent.workspaces?.[0]?.id === workspace, me.structuredContent)
    const absent = await client.call('get_deployment', { deployment: 'absent' })
    const { code, next } = absent.structuredContent
    say('gets an error with a next step', absent.isError && code === 'deployment_not_found' && Boolean(next), absent)
    const faulty = await client.call('find_deployments', { limit: 'many', nmae: 'shop' })
    say('gets all faults of its arguments', faulty.isError && faulty.content[0].text.includes('nmae'), faulty.content)

    const deployment = `shop-${crypto.randomUUID().slice(0, 8)}`
    const body = {
      name: deployment,
      source: 'internal_template',
      source_config: { template_id: 'web-service' },
      source_revision_config: {},
      secrets: [{ name: 'TOKEN', value: 'hush-hush' }],
    }
    const plan = await client.call('plan_change', { change: 'create', body })
    const { plan_digest } = plan.structuredContent
    say('plans', typeof plan_digest === 'string' && !plan.isError, plan)
    const find = async () => (await client.call('find_deployments', { name_contains: deployment })).structuredContent
    say('changes nothing by a plan', (await find()).deployments.length === 0)
    const change = { change: 'create', body, plan_digest }
    if (canBeAsked(name)) {
      const declined = await client.call('apply_plan', change)
      say('applies nothing that the person declines', declined.isError && (await find()).deployments.length === 0)
      say('shows the person the plan', client.questions.at(-1)?.includes(deployment) === true, client.questions)
      answer = 'accept'
    }
    const applied = await client.call('apply_plan', change)
    const [found] = (await find()).deployments
    say('applies the plan', !applied.isError && found?.name === deployment, applied)
    const repeated = await client.call('apply_plan', change)
    const { deployment_id, code: refusal } = repeated.structuredContent
    // A client that can ask asks about the plan of now, which is refused because the name is taken.
    const isHarmless = canBeAsked(name) ? refusal === 'deployment_name_taken' : deployment_id === found.id
    say('creates nothing twice', isHarmless && (await find()).deployments.length === 1, repeated.structuredContent)
    const other = { ...change, body: { ...body, name: `${deployment}-2` } }
    const stale = await client.call('apply_plan', other)
    say('cannot apply another plan', stale.isError && stale.structuredContent.code === 'plan_stale', stale)

    const resource = await client.resourceText(`slipway://deployments/${deployment}`)
    say('reads it as a resource, without its secret', resource.includes(found.id) && !resource.includes('hush-hush'))
    say(
      'links to its page',
      (await client.call('get_deployment', { deployment })).structuredContent.link.endsWith(found.id),
    )
    say('completes its name', (await client.complete(deployment.slice(0, 9))).includes(deployment))
    const prompt = await client.promptText('explain_failed_revision', { deployment })
    say('gets a prompt', prompt.includes(deployment) && prompt.includes('read_logs'))
  } finally {
    await client.close()
  }
}

async function tryWrongKey(server: OuterServer, { host }: Installation): Promise<void> {
  for (const name of CLIENTS) {
    const way = 'url' in server ? 'HTTP' : 'slipway mcp'
    const error = await connect(name, server, () => 'decline').then(
      client => client.close().then(() => undefined),
      (caught: Error) => caught,
    )
    // Pinned to a protocol, the client of a process does not show the error that it got.
    const expected = 'url' in server ? /unauthorized|authorization|key/i : /slipway login|Version negotiation failed/
    check(`${host}, ${name}, ${way}: an unknown key is refused`, expected.test(String(error)), String(error))
  }
}

/** The whole way of a client that knows the address alone. */
async function tryOAuth(installation: Installation): Promise<void> {
  const { host, url, workspace } = installation
  const person = await signIn(installation)
  for (const [i, name] of CLIENTS.entries()) {
    const say = (what: string, isTrue: boolean, detail?: unknown) =>
      check(`${host}, ${name}, OAuth: ${what}`, isTrue, JSON.stringify(detail))
    const access = i === 0 ? 'all' : 'read'
    const program = await obtainTokens(name, `${url}/mcp`, address => person.approve(address, { access }))
    const { access_token, refresh_token, expires_in } = program.tokens()
    say('gets tokens, the one for an hour', expires_in > 0 && expires_in <= 3600 && Boolean(refresh_token), expires_in)
    const use = async (token: string) => {
      const headers = { Authorization: `Bearer ${token}` }
      const client = await connect(name, { url: `${url}/mcp`, headers }, () => 'accept')
      const names = await client.toolNames()
      const me = await client.call('whoami')
      await client.close()
      return { names, me }
    }
    const { names, me } = await use(access_token)
    say('acts in the workspace that was chosen', me.structuredContent.workspaces?.[0]?.id === workspace, me)
    say(`has the tools of ${access}`, names.includes('apply_plan') === (access === 'all'), names)
    await program.refresh()
    const next = program.tokens()
    say('rotates its refresh token', next.refresh_token !== refresh_token && next.access_token !== access_token)
    say('goes on with the new token', (await use(next.access_token)).names.length === names.length)
    const form = new URLSearchParams({ token: next.refresh_token, client_id: program.client.client_id })
    const revoked = await fetch(`${url}/oauth/revoke`, { method: 'POST', body: form })
    const error = await use(next.access_token).then(
      () => undefined,
      (caught: Error) => caught,
    )
    say('is refused after it has disconnected', revoked.ok && error !== undefined, [revoked.status, String(error)])
  }
}

async function installInspector(): Promise<string | undefined> {
  const folder = join(CACHE, `inspector-${INSPECTOR_VERSION}`)
  const program = join(folder, 'node_modules/.bin/mcp-inspector')
  if (!existsSync(program) && isInstalling) {
    await mkdir(folder, { recursive: true })
    const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder]
    await promisify(execFile)('npm', [...args, `${INSPECTOR}@${INSPECTOR_VERSION}`])
  }
  return existsSync(program) ? program : undefined
}

async function tryInspector(
  program: string,
  server: OuterServer,
  { host, workspace, folder }: Installation,
): Promise<void> {
  const way = 'url' in server ? 'HTTP' : 'slipway mcp'
  const target =
    'url' in server
      ? [
          server.url,
          '--transport',
          'http',
          '--header',
          ...Object.entries(server.headers).map(header => header.join(': ')),
        ]
      : [server.command, ...server.args, ...Object.entries(server.env).flatMap(pair => ['-e', pair.join('=')])]
  const inspect = async (...args: string[]) => {
    const env = { ...process.env, HOME: folder }
    const options = { env, timeout: 60_000, maxBuffer: 2 ** 24 }
    const ran = promisify(execFile)(process.execPath, [program, '--cli', ...target, ...args], options)
    return ran.then(
      ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
      ({ stdout, stderr, code }) => ({ stdout, stderr, code }),
    )
  }
  const say = (what: string, isTrue: boolean, detail?: unknown) =>
    check(`${host}, inspector, ${way}: ${what}`, isTrue, JSON.stringify(detail))
  const json = ({ stdout }: { stdout: string }) => {
    try {
      return JSON.parse(stdout)
    } catch {
      return {}
    }
  }
  const listed = await inspect('--method', 'tools/list', '--strict')
  const names = json(listed).tools?.map(({ name }: { name: string }) => name)
  say('lists the tools, whose schemas are portable', listed.code === 0 && same(names, TOOL_NAMES), listed)
  const me = await inspect('--method', 'tools/call', '--tool-name', 'whoami')
  say('calls a tool', json(me).structuredContent?.workspaces?.[0]?.id === workspace, me)
  const prompts = await inspect('--method', 'prompts/list')
  say('lists the prompts', json(prompts).prompts?.length === 2, prompts)
  const templates = await inspect('--method', 'resources/templates/list')
  say('lists the resource templates', json(templates).resourceTemplates?.length === 1, templates)
}

await runTrial(async () => {
  const inspector = await installInspector()
  if (!inspector) skipped('the inspector is not installed; run with --install')
  for (const start of Object.values(HOSTS)) {
    await using cleanup = new AsyncDisposableStack()
    const installation = await start(cleanup)
    const { url, key, folder, host } = installation
    const program = await packCommandLine(join(folder, 'cli'))
    const stdio = { command: process.execPath, args: [program, 'mcp'], cwd: folder, env: loginOf(installation) }
    const servers: OuterServer[] = [{ url: `${url}/mcp`, headers: { 'X-Api-Key': key } }, stdio]
    for (const server of servers) {
      for (const name of CLIENTS) await tryClient(name, server, installation)
      if (inspector) await tryInspector(inspector, server, installation)
    }
    const bearer = { url: `${url}/mcp`, headers: { Authorization: `Bearer ${key}` } }
    const client = await connect('client 2.4.0, 2026-07-28', bearer, () => 'decline')
    check(`${host}: the key may be a bearer token`, (await client.toolNames()).length === TOOL_NAMES.length)
    await client.close()
    const wrong = key.replace(/.{8}$/, '00000000')
    await tryWrongKey({ url: `${url}/mcp`, headers: { 'X-Api-Key': wrong } }, installation)
    await tryWrongKey({ ...stdio, env: { ...stdio.env, SLIPWAY_API_KEY: wrong } }, installation)
    await tryOAuth(installation)
  }
})
