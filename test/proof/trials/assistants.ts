// Plays two assistants, as fixed sequences of tool calls: one fixes a failing build, one approves a fork's preview.
import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { startLocalGitea } from '../../support/local-gitea.ts'
import { type ConnectedClient, connect } from '../../support/mcp-clients.ts'
import { requestRouter } from '../../support/process-engine.ts'
import { check, note, runTrial } from '../support/trial.ts'
import { HOSTS, type Installation, until } from '../support/two-hosts.ts'

const WEBHOOK_SECRET = 'hush-webhook-secret'
const REPOSITORY = 'acme/shop'
const REVISION = { repo_ref: 'main', platform_config_path: 'slipway.json' }

const filesOf = (greeting: string): Record<string, string> => ({
  'package.json': JSON.stringify({ name: 'shop', scripts: { build: 'node build.cjs', start: 'node dist/server.cjs' } }),
  'slipway.json': '{}',
  'build.cjs': `require('fs').cpSync('server.cjs', 'dist/server.cjs', { recursive: true })\n`,
  'server.cjs': `require('http').createServer((_, res) => res.end('${greeting}')).listen(process.env.PORT)\n`,
})

/** A repository at a git host that the workspace is connected to. */
async function connectGitHost(cleanup: AsyncDisposableStack, { url, key, folder }: Installation) {
  const githost = await startLocalGitea(join(folder, 'git'))
  cleanup.defer(() => githost.close())
  const workTree = join(folder, 'work')
  const run = async (...args: string[]) => (await promisify(execFile)('git', args)).stdout.trim()
  const git = (...args: string[]) =>
    run('-C', workTree, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args)
  await run('clone', '-q', githost.create(REPOSITORY), workTree)
  const commit = async (greeting: string, branch: string) => {
    for (const [name, text] of Object.entries(filesOf(greeting))) {
      mkdirSync(dirname(join(workTree, name)), { recursive: true })
      writeFileSync(join(workTree, name), text)
    }
    await git('add', '.')
    await git('commit', '-q', '-m', `Say ${greeting}`)
    await git('push', '-q', 'origin', `HEAD:${branch}`)
    return git('rev-parse', 'HEAD')
  }
  await commit('Hello', 'main')
  const body = {
    host: 'gitea',
    base_url: githost.origin,
    token: 'hush-token',
    webhook_secret: WEBHOOK_SECRET,
  }
  const response = await fetch(`${url}/v1/integrations/forge/githost`, {
    method: 'POST',
    headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  const { id } = (await response.json()) as { id: string }
  githost.hooks.push({ url: `${url}/v1/integrations/forge/githost/${id}/webhook`, secret: WEBHOOK_SECRET })
  return { githost, commit }
}

/** Calls tools one after another, and says which. An error ends the sequence unless it is expected. */
function makeAssistant(client: ConnectedClient, name: string) {
  const calls: string[] = []
  async function call(tool: string, args: Record<string, unknown> = {}) {
    calls.push(tool)
    const result = await client.call(tool, args)
    if (result.isError) throw new Error(`${name}: ${tool} failed: ${result.content[0]?.text}`)
    return result.structuredContent
  }
  /** Looks again, as an assistant does. */
  const look = (what: string, tool: string, args: Record<string, unknown>, isIt: (found: never) => unknown) => {
    calls.push(tool)
    return until(`${name}: ${what}`, async () => {
      const found = (await client.call(tool, args)).structuredContent
      return isIt(found as never) ? found : undefined
    })
  }
  const plan = async (args: Record<string, unknown>) => {
    const { plan_digest, ...rest } = await call('plan_change', args)
    await call('apply_plan', { ...args, plan_digest })
    return rest
  }
  return { call, look, plan, calls }
}

const answers = (url: string, text: string) =>
  until(`${url} answers ${text}`, async () => (await requestRouter(url)).body === text)

async function fixFailingBuild(client: ConnectedClient, host: string): Promise<void> {
  const { call, look, plan, calls } = makeAssistant(client, 'fix a build')
  const { integration_id, repositories } = await call('list_repositories')
  const [repository] = repositories
  check(`${host}: the assistant finds the repository`, `${repository?.owner}/${repository?.name}` === REPOSITORY)
  await call('search_api', { operation: 'createDeployment' })
  const source_config = { integration_id, repo_url: repository.url, build_on_push: true }
  const created = await plan({
    change: 'create',
    body: {
      name: 'shop',
      source: 'githost',
      secrets: [],
      source_revision_config: REVISION,
      source_config: { ...source_config, build_command: 'npm run buidl' },
    },
  })
  check(`${host}: the plan says that it creates a revision`, created.creates_revision === true)
  const failed = await look('the build fails', 'get_deployment', { deployment: 'shop' }, (found: never) =>
    (found as { obstacles: { code: string }[] }).obstacles.some(({ code }) => /fail/.test(code)),
  )
  note(`obstacles: ${JSON.stringify(failed.obstacles.map(({ code }: { code: string }) => code))}`)
  const { lines, untrusted } = await call('read_logs', { deployment: 'shop', kind: 'build', tail: 50 })
  const isCauseShown = lines.some(({ message }: { message: string }) => /missing script.*buidl/i.test(message))
  check(
    `${host}: the log has the cause, as text that is not trusted`,
    isCauseShown && untrusted === true,
    JSON.stringify(lines),
  )
  const { revisions } = await call('list_revisions', { deployment: 'shop' })
  check(`${host}: the revision failed`, /FAILED/.test(revisions[0].status), JSON.stringify(revisions[0]))

  const fixed = await plan({
    change: 'patch',
    deployment: 'shop',
    body: { source_config: { build_command: 'npm run build' } },
  })
  if (!fixed.creates_revision) await plan({ change: 'redeploy', deployment: 'shop' })
  const serving = await look('it serves', 'get_deployment', { deployment: 'shop' }, (found: never) =>
    Boolean((found as { url: string | null }).url && (found as { serving: string }).serving === 'current'),
  )
  check(`${host}: the application answers at its URL`, await answers(serving.url, 'Hello'))
  const events = await call('list_events', { deployment: 'shop' })
  check(`${host}: the events say what happened`, events.events.length >= 3)
  note(`calls: ${calls.join(', ')}`)
}

async function approvePreview(
  client: ConnectedClient,
  { url, key, host }: Installation,
  { githost, commit }: Awaited<ReturnType<typeof connectGitHost>>,
): Promise<void> {
  const { call, look, calls } = makeAssistant(client, 'approve a preview')
  const { id } = await call('get_deployment', { deployment: 'shop' })
  const policy = await fetch(`${url}/v2/deployments/${id}/preview-policy`, {
    method: 'PUT',
    headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ branches: ['*'], forks: 'approve' }),
  })
  check(`${host}: forks need an approval`, policy.ok)
  const sha = await commit('Hello from a fork', 'patch-1')
  await githost.pull(REPOSITORY, 7, 'patch-1', 'opened', { isFork: true })

  const waiting = await look(
    'the preview waits',
    'list_previews',
    { state: 'awaiting_approval' },
    (found: never) => (found as { previews: unknown[] }).previews.length === 1,
  )
  const [preview] = waiting.previews
  const isSeen = preview.fork === true && preview.head_sha === sha && preview.commit.message.includes('from a fork')
  check(`${host}: the assistant sees the commit of the fork, as text that is not trusted`, isSeen && waiting.untrusted)
  const other = { deployment: 'shop', number: 7, head_sha: '0'.repeat(40) }
  const refused = await client.call('approve_preview', other)
  check(`${host}: another commit is not approved`, refused.isError, JSON.stringify(refused))
  const approved = await call('approve_preview', { ...other, head_sha: preview.head_sha })
  check(`${host}: this commit is`, approved.approved_sha === sha, JSON.stringify(approved))
  const child = { deployment: 'shop-pr-7' }
  const live = await look('the preview serves', 'get_deployment', child, (found: never) =>
    Boolean((found as { url?: string | null }).url && (found as { serving: string }).serving === 'current'),
  )
  check(`${host}: the preview answers at its URL`, await answers(live.url, 'Hello from a fork'))
  note(`calls: ${calls.join(', ')}`)
}

await runTrial(async () => {
  for (const start of Object.values(HOSTS)) {
    await using cleanup = new AsyncDisposableStack()
    const installation = await start(cleanup)
    const { url, key, host } = installation
    const githost = await connectGitHost(cleanup, installation)
    const server = { url: `${url}/mcp`, headers: { Authorization: `Bearer ${key}` } }
    for (const name of ['client 2.4.0, 2026-07-28', 'sdk 1.32.2, 2025'] as const) {
      const client = await connect(name, server, () => 'accept')
      cleanup.defer(() => client.close())
      if (name.endsWith('2025')) await approvePreview(client, installation, githost)
      else await fixFailingBuild(client, host)
      if (client.questions.length > 0) note(`the person was asked ${client.questions.length} times`)
    }
  }
})
