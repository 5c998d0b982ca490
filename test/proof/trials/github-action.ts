// Runs the GitHub Action in workflows with act, another program that runs them: a deploy, a preview, later steps.
import { execFile, execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { startCommand, stopCommands } from '../../support/commands.ts'
import { startTokenIssuer } from '../../support/token-issuer.ts'
import { check, findMissing, note, runTrial, skipped } from '../support/trial.ts'

/** The permissions that the page of the Action gives to the role of its keys. */
const PERMISSIONS = ['read', 'create', 'update', 'delete'].map(verb => `deployments:${verb}`)
const ROOT = join(import.meta.dirname, '../../..')

const on = (event: string) => `on: ${event}
permissions:
  id-token: write
jobs:
  trial:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
`
const step = (inputs: Record<string, string>) => `      - id: slipway
        uses: ./.github/actions/slipway
        with:
${Object.entries(inputs)
  .map(([name, value]) => `          ${name}: '${value}'\n`)
  .join('')}`
const SHOW_OUTPUTS = `      - run: echo "outcome=$OUTCOME url=$URL revision=$REVISION"
        env:
          OUTCOME: \${{ steps.slipway.outputs.outcome }}
          URL: \${{ steps.slipway.outputs.url }}
          REVISION: \${{ steps.slipway.outputs.revision }}
`

async function createOrganizationKey(home: string): Promise<string> {
  const args = ['--organization', 'Local', '--organization-key']
  const bootstrapped = startCommand('src/host/bootstrap.ts', args, { SLIPWAY_HOME: home })
  await bootstrapped.exited
  return /slw_\w+/.exec(bootstrapped.output.out)![0]
}

async function tryAction(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-action-'))
  // Applications run as other users, who have to reach their folders below it.
  fs.chmodSync(folder, 0o755)
  cleanup.defer(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const home = join(folder, 'home')
  const dev = startCommand('src/host/dev.ts', [`--port=${await findFreePort()}`], { SLIPWAY_HOME: home })
  cleanup.defer(stopCommands)
  const file = join(home, 'dev.json')
  await dev.until(() => fs.existsSync(file))
  const { url, api_key, tenant_id } = JSON.parse(fs.readFileSync(file, 'utf8')) as Record<string, string>
  const call = async (method: string, path: string, body?: object, key = api_key!) => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    return (await response.json()) as { resources?: { name: string; status: string }[]; id?: string }
  }
  const listDeployments = async () =>
    (await call('GET', '/v2/deployments')).resources!.filter(({ status }) => status !== 'AWAITING_DELETE')

  const issuer = await startTokenIssuer()
  cleanup.defer(issuer.close)
  issuer.instead['/token'] = async (request, response) => {
    if (request.headers.authorization !== 'Bearer request-token') return void response.writeHead(401).end()
    const aud = new URL(request.url!, issuer.origin).searchParams.get('audience')
    const value = await issuer.sign({ aud, sub: 'repo:acme/shop:ref:refs/heads/main' })
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ value }))
  }
  const role = { display_name: 'GitHub Actions', permissions: PERMISSIONS }
  const { id: role_id } = await call('POST', '/orgs/current/roles', role, await createOrganizationKey(home))
  const trusted = { name: 'shop', issuer: issuer.origin, subject: 'repo:acme/shop:*', role_id }
  check('the workspace trusts the repository', Boolean((await call('POST', '/v2/trusted-issuers', trusted)).id))

  const repository = join(folder, 'shop')
  const write = (path: string, text: string) => {
    fs.mkdirSync(dirname(join(repository, path)), { recursive: true })
    fs.writeFileSync(join(repository, path), text)
  }
  write('server.cjs', `require('http').createServer((_, res) => res.end('shop')).listen(process.env.PORT)`)
  write('slipway.json', '{"start_command": "node server.cjs"}')
  const place = { url: url!, workspace: tenant_id! }
  const shop = { ...place, deployment: 'shop' }
  write('.github/workflows/push.yml', on('push') + step({ ...shop, create: 'true' }) + SHOW_OUTPUTS)
  write('.github/workflows/pull.yml', on('pull_request') + step({ ...shop, mode: 'preview' }) + SHOW_OUTPUTS)
  const commands = `      - run: slipway whoami && slipway list --name shop\n`
  write('.github/workflows/setup.yml', on('push') + step({ ...place, mode: 'setup' }) + commands)
  write('.github/workflows/wrong.yml', on('push') + step({ ...shop, timeout: 'soon' }) + SHOW_OUTPUTS)
  const action = join(repository, '.github/actions/slipway')
  execFileSync(process.execPath, [join(ROOT, 'deploy/github-action/package.ts'), action])
  const git = (...args: string[]) => execFileSync('git', args, { cwd: repository })
  git('init', '-q', '-b', 'main')
  git('add', '.')
  git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', 'commit', '-qm', 'Start')
  git('remote', 'add', 'origin', 'https://github.com/acme/shop.git')

  async function run(workflow: string, event: string, payload: object = {}) {
    const [payloadFile, settings] = [join(folder, 'event.json'), join(folder, 'act-home')]
    fs.mkdirSync(settings, { recursive: true })
    fs.writeFileSync(payloadFile, JSON.stringify(payload))
    const args = [
      event,
      '-W',
      `.github/workflows/${workflow}.yml`,
      '-e',
      payloadFile,
      '-P',
      'ubuntu-latest=-self-hosted',
      '--env',
      `ACTIONS_ID_TOKEN_REQUEST_URL=${issuer.origin}/token?api-version=2.0`,
      '--env',
      'ACTIONS_ID_TOKEN_REQUEST_TOKEN=request-token',
    ]
    const { PATH = '' } = process.env
    // It asks for an image on its first start, and writes below its home.
    fs.writeFileSync(join(settings, '.actrc'), '')
    const env = { PATH, HOME: settings, XDG_CONFIG_HOME: settings, XDG_CACHE_HOME: settings, TMPDIR: folder }
    return new Promise<{ code: number; log: string }>(resolve => {
      execFile('act', args, { cwd: repository, env, maxBuffer: 1e8 }, (error, stdout, stderr) => {
        const log = stdout + stderr
        if (process.env.VERBOSE) note(log)
        resolve({ code: error ? Number(error.code ?? 1) : 0, log })
      })
    })
  }
  const pullRequest = (action: string) => ({
    action,
    number: 7,
    pull_request: { number: 7, head: { ref: 'topic', repo: { full_name: 'acme/shop' } }, base: { ref: 'main' } },
  })

  const pushed = await run('push', 'push')
  check('a push deploys, and a later step gets the outputs', pushed.code === 0, pushed.log.slice(-2000))
  const [, address = ''] = /outcome=deployed url=(http:\S+) revision=1/.exec(pushed.log) ?? []
  check('the address answers', execFileSync('curl', ['-s', address || url!], { encoding: 'utf8' }) === 'shop')
  check('the log has no key', !/slw_\w{10}/.test(pushed.log))
  const again = await run('push', 'push')
  check('the next push deploys revision 2', / revision=2/.test(again.log), again.log.slice(-2000))

  const opened = await run('pull', 'pull_request', pullRequest('opened'))
  check('a pull request gets a preview', /outcome=deployed/.test(opened.log), opened.log.slice(-2000))
  const names = (await listDeployments()).map(({ name }) => name).sort()
  check('it is a deployment of its own', names.join() === 'pr-7--shop,shop', names.join())
  const [, previewUrl = ''] = /outcome=deployed url=(http:\S+)/.exec(opened.log) ?? []
  const answer = execFileSync('curl', ['-s', previewUrl || url!], { encoding: 'utf8' })
  check('its address answers', answer === 'shop', answer.slice(0, 200))
  const closed = await run('pull', 'pull_request', pullRequest('closed'))
  check('a closed pull request has none', /outcome=removed/.test(closed.log), closed.log.slice(-2000))
  check('only that is deleted', (await listDeployments()).map(({ name }) => name).join() === 'shop')

  const setUp = await run('setup', 'push')
  check('mode setup signs later steps in', setUp.code === 0 && /shop +READY/.test(setUp.log), setUp.log.slice(-2000))
  const wrong = await run('wrong', 'push')
  check('a wrong input fails the job', wrong.code !== 0 && /timeout is not/.test(wrong.log), wrong.log.slice(-2000))
}

await runTrial(async () => {
  const missing = findMissing('act')
  if (missing) skipped(`everything: ${missing}`)
  else await tryAction()
})
