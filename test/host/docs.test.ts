// The commands of the pages, pasted into a shell against a real `npm run dev`, answer what the pages say.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { EVENT_OPERATIONS } from '../../src/people/audit/operation-names.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { startDemoServer, stopCommands, waitFor } from '../support/commands.ts'
import { bootstrapKey, readDevInstallation } from '../support/dev-installation.ts'
import { startLocalGitea } from '../support/local-gitea.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { makeCheckout, readPage, runPage, runShell as runShellIn } from '../support/page-commands.ts'

const ROOT = join(import.meta.dirname, '../..')
const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-docs-'))

/** Pages whose `sh` blocks run here, from top to bottom, but for those that start with npm or node. */
const RUNNING = [
  'README',
  'docs/deploy/apply',
  'docs/deploy/operate-a-deployment',
  'docs/start/cli',
  'docs/start/mcp-clients',
  'docs/deploy/from-source',
  'docs/deploy/from-git',
  'docs/deploy/runtime',
  'docs/deploy/processes',
  'docs/deploy/scale',
  'docs/deploy/split-traffic',
  'docs/deploy/roll-out-by-steps',
  'docs/deploy/databases',
  'docs/deploy/disks',
  'docs/deploy/protect-previews',
  'docs/operate/api-keys',
  'docs/deploy/keyless-ci',
  'docs/observe/events',
  'docs/operate/fleet',
  'docs/reference/clients',
  'docs/observe/feedback',
  'docs/observe/trace-retention',
  'docs/observe/metrics',
  'docs/observe/requests',
  'docs/observe/logs',
  'docs/start/sign-in',
  'docs/reference/limits',
  'docs/deploy/oauth',
  'docs/deploy/secrets',
  'docs/deploy/jobs',
  'docs/observe/alerts',
  'docs/observe/drains',
  'docs/observe/webhooks',
  'docs/observe/channels',
  'docs/observe/audit',
  'docs/operate/access-policies',
  'docs/observe/tracing',
  'docs/observe/trace-an-application',
  'docs/observe/query-traces',
  'docs/observe/automation-rules',
  'docs/observe/datasets',
  'docs/observe/annotation-queues',
  'docs/deploy/model-calls',
  'docs/observe/insights',
  'docs/deploy/export',
  'docs/reference/mcp',
  'docs/deploy/languages/node',
  'docs/deploy/languages/static',
]
const LANGUAGE_TOOLS = 'the tools of its language; test/proof/trials/languages.ts runs its commands'
const NEEDS: Record<string, string> = {
  'docs/deploy/shell': 'a deployment of the reader; hosting/relay/tunnels.test.ts and agent/terminals.test.ts',
  'docs/deploy/requests': 'a deployment of the reader; agent/router.test.ts, agent/router-http2.test.ts',
  'docs/README': 'has no commands',
  'docs/deploy/languages/deno': LANGUAGE_TOOLS,
  'docs/deploy/languages/go': LANGUAGE_TOOLS,
  'docs/deploy/languages/java': LANGUAGE_TOOLS,
  'docs/deploy/languages/python': LANGUAGE_TOOLS,
  'docs/deploy/languages/ruby': LANGUAGE_TOOLS,
  'docs/deploy/languages/rust': LANGUAGE_TOOLS,
  'docs/deploy/graphs': 'packages of graphs; test/proof/trials/graph-deploy.ts and build-plan/graphs.pure.test.ts',
  'docs/deploy/any-folder': 'a folder of the reader; build-plan/plans.pure.test.ts and cli/deploy.test.ts',
  'docs/deploy/compose': 'a folder of the reader; cli/compose.pure.test.ts and cli/deploy.test.ts',
  'docs/operate/back-up': 'an installation of the operator; host/backup.test.ts and test/proof/trials/restore.ts',
  'docs/reference/client': 'the built package; test/proof/trials/clients.ts runs its programs',
  'docs/reference/contract': 'a checkout; architecture/contract.test.ts',
  'docs/operate/containers': 'container tools; npm run test:containers',
  'docs/deploy/custom-domains':
    'an installation in mode self_hosted and a DNS record; hosting/deployments/custom-hosts.test.ts',
  'docs/start/dashboard': 'a browser; dashboard/screens',
  'docs/operate/database-logins': 'a Postgres of the operator; host/start.test.ts',
  'docs/operate/cloud-run': 'an account; test/proof/trials/deploy.ts does what Cloud Run would',
  'docs/operate/deno-deploy': 'an account; test/proof/trials/deploy.ts does what Deno Deploy would',
  'docs/operate/fly': 'an account; test/proof/trials/deploy.ts does what Fly would',
  'docs/operate/vm': 'a machine of its own; test/proof/trials/deploy.ts runs the unit',
  'docs/operate/workers': 'an account; host/scripts.test.ts',
  'docs/deploy/github-action': 'a runner of GitHub; cli/github-action.test.ts and test/proof/trials/github-action.ts',
  'docs/operate/images': 'container tools; test/proof/trials/image.sh',
  'docs/operate/install-on-kubernetes':
    'a cluster; test/proof/trials/chart.ts runs its commands, test/proof/trials/cluster.ts on an API server',
  'docs/operate/kubernetes': 'a cluster; agent/kubernetes/docs.test.ts checks its tables',
  'docs/operate/one-machine': 'a machine of its own; test/proof/trials/public.sh plays it',
  'docs/operate/installation': 'a machine of its own; test/proof/trials/operating.sh plays it',
  'docs/deploy/previews': 'a git host; hosting/pushes/previews.test.ts',
  'docs/operate/processes': 'root; agent/users.test.ts',
  'docs/operate/registry': 'a registry; hosting/deployments/registry.test.ts',
  'docs/operate/self-host': 'a Postgres of the operator; host/start.test.ts',
  'docs/reference/settings': 'a Postgres of the operator; host/start.test.ts',
  'docs/reference/engines': 'a listener of the reader; protocol/engine-features.pure.test.ts',
  'docs/reference/table-bounds': 'a Postgres of the operator; host/operate/table-bounds.test.ts',
  'docs/deploy/terraform': 'OpenTofu; test/proof/trials/terraform.ts runs its configuration',
  'docs/operate/upgrade': 'an earlier release; host/migrate.test.ts and test/proof/trials/upgrade.ts',
  'docs/operate/trace-storage': 'a ClickHouse of the operator; npm run test:clickhouse',
}

const FOLDERS = ['start', 'deploy', 'deploy/languages', 'observe', 'operate', 'reference']
const READERS = ['docs', ...FOLDERS.map(name => `docs/${name}`)]

const listPages = (folders = READERS) =>
  folders.flatMap(folder =>
    fs
      .readdirSync(join(ROOT, folder))
      .filter(name => name.endsWith('.md'))
      .map(name => `${folder}/${name.slice(0, -3)}`),
  )

/** Removes quotes and here-documents. An exclamation mark counts in double quotes too. */
function withoutQuoted(commands: string): string {
  const text = commands.replace(/<<'(\w+)'\n.*?\n\1\n/gs, '')
  const open: string[] = []
  let rest = ''
  for (let at = 0; at < text.length; at++) {
    const [character, inQuotes] = [text[at]!, open.at(-1) === '"']
    if (character === '\\') at++
    else if (character === '"' && inQuotes) open.pop()
    else if (text.startsWith('$(', at) || (!inQuotes && /["(]/.test(character)))
      open.push(character === '"' ? '"' : ')')
    else if (character === ')' && !inQuotes) open.pop()
    else if (character === "'" && !inQuotes) at = text.indexOf("'", at + 1)
    else if (!inQuotes || character === '!') rest += character
    if (text.startsWith('$(', at)) at++
  }
  return rest
}

let demo: Awaited<ReturnType<typeof startDemoServer>>
let organizationKey: string
let models: ModelServer
let gitea: Awaited<ReturnType<typeof startLocalGitea>>
beforeAll(async () => {
  const { home } = await readDevInstallation()
  makeCheckout(folder, home)
  organizationKey = await bootstrapKey(home, '--organization', 'Local', '--organization-key')
  demo = await startDemoServer()
  models = await startModelServer()
  gitea = await startLocalGitea(join(folder, 'git'))
  await pushApplication(gitea.create('acme/shop'))
})
afterAll(async () => {
  await stopCommands()
  await models.close()
  gitea.close()
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
})

const inFolder = () => ({ cwd: folder, env: { ORGANIZATION_KEY: organizationKey } })
const runShell = (script: string) => runShellIn(script, inFolder())
/** The smallest application that builds from git. */
async function pushApplication(remote: string): Promise<void> {
  const server = "require('http').createServer((_, res) => res.end('shop')).listen(process.env.PORT)"
  await runShell(`
    git init -q -b main work && cd work
    echo '{"start_command": "node server.cjs"}' > slipway.json
    echo "${server}" > server.cjs
    git add . && git -c user.name=Ada -c user.email=ada@example.com commit -qm 'Start' && git push -q ${remote} main`)
}

it.each(RUNNING)('%s: its commands print the output that it shows', async page => {
  const receiverPort = String(await findFreePort())
  const withLocalServers = (text: string) =>
    text
      .replaceAll('4100', receiverPort)
      .replaceAll('http://localhost:3000', demo.mcp)
      .replaceAll('http://localhost:3001', demo.auth)
      .replaceAll('http://localhost:8000', models.url)
      .replaceAll('https://git.example.com', gitea.origin)
      .replaceAll('YOUR-TOKEN', 'hush-token')
  expect(await runPage(page, inFolder(), withLocalServers)).toEqual([])
})

test('the last line that npm run dev prints deploys an application that answers', async () => {
  const { printed } = await readDevInstallation()
  const lastLine = printed.split('\n').findLast(line => line.startsWith('curl '))!
  expect((await runShell(lastLine)).stdout).toContain('{"service":"hello"')
  // Without a terminal, the lines of the agent are JSON like those of the app.
  const event = await waitFor(async () => {
    const lines = (await readDevInstallation()).printed.split('\n')
    return lines.find(line => /"event":"revision serving".*"hello"/.test(line))
  })
  expect(JSON.parse(event)).toMatchObject({ deployment: 'hello', revision: 1 })
})

test('the examples of the API pages create a deployment that answers, and change it', async () => {
  const { stdout } = await runShell(`
    . docs/shell.sh
    example() {
      api GET /openapi.json | node -e '
        const { components } = JSON.parse(require("fs").readFileSync(0))
        console.log(JSON.stringify(components.schemas[process.argv[1]].example))' $1
    }
    ID=$(api POST /v2/deployments -d "$(example NewDeployment)" | field id)
    wait_until_served $ID
    curl -s $(api GET /v2/deployments/$ID | field url)
    api PATCH /v2/deployments/$ID -d "$(example DeploymentPatch)" > /dev/null
    wait_until_served $ID`)
  expect(stdout.match(/"number":\d|"service":"[^"]*"/g)).toEqual(['"number":1', '"service":"my-service"', '"number":1'])
})

describe('the pages', () => {
  it('begin with commands, and each page either runs here or says what it needs', () => {
    expect(['README', ...listPages()].sort()).toEqual([...RUNNING, ...Object.keys(NEEDS)].sort())
    for (const page of listPages().filter(page => page !== 'docs/README'))
      expect(
        readPage(page)
          .split(/\n```(?:ba)?sh\n/)[0]!
          .split('\n').length,
        page,
      ).toBeLessThan(12)
  })

  it('are all in the index, and link to files that exist', () => {
    const index = readPage('docs/README')
    for (const page of listPages().filter(page => page !== 'docs/README'))
      expect(index, page).toContain(`(${page.slice(5)}.md)`)
    const pages = ['README', 'ARCHITECTURE', 'CONTRIBUTING', 'SECURITY', 'PROTOCOL', ...listPages()]
    for (const page of pages)
      for (const [, target] of readPage(page).matchAll(/\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g))
        expect(fs.existsSync(join(ROOT, page, '..', target!)), `${page} links to ${target}`).toBe(true)
  })

  it('have commands that paste into zsh as well as into bash', () => {
    for (const page of ['README', 'CONTRIBUTING', ...listPages(), ...listPages(['docs/design'])])
      for (const [, commands] of readPage(page).matchAll(/```(?:sh|bash)\n(.*?)```/gs)) {
        // A prompt of zsh knows no comments, and fails on an unquoted pattern that matches no file.
        expect(withoutQuoted(commands!), page).not.toMatch(/(^|\s)#|[*?![\]]/m)
        // Its `echo` reads backslashes, within quotes and in what variables hold.
        expect(commands, page).not.toMatch(/\becho (.*\\[^"\n]|"\$\w+" \|)/)
      }
  })

  it('list every type of events', () => {
    const page = readPage('docs/observe/events')
    for (const [resource, what] of Object.keys(EVENT_OPERATIONS).map(type => type.split('.')))
      expect(page, `${resource}.${what}`).toMatch(new RegExp(`^\\| \`${resource}\` \\|.* \`${what}\``, 'm'))
  })

  it('at the front are short', () => {
    for (const page of ['README', 'ARCHITECTURE'])
      expect(readPage(page).split('\n').length, page).toBeLessThanOrEqual(150)
  })
})
