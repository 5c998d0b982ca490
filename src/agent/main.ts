// The agent as a program: `node src/agent/main.ts`, with the address of the control plane and the key of its listener in its environment.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { Agent } from './agent.ts'
import { parseNetworks } from './builds/allowed-address.ts'
import { createControlPlaneClient } from './control-plane/client.ts'
import type { Engine } from './engines/engine.ts'
import { chooseCgroup } from './system/cgroups.ts'
import { readJson, writeJson } from './system/files.ts'
import { identityOf, isAlive, type ProcessIdentity } from './system/processes.ts'
import { chooseIsolation, type Isolation } from './system/run-as.ts'

const USAGE = `npm run agent -- [--home FOLDER] [--engine process|container|kubernetes] [--port PORT] [--stop]

Runs what the control plane at SLIPWAY_URL wants of the listener whose key is SLIPWAY_LISTENER_KEY.
  --home    where it keeps applications, builds and who it is; SLIPWAY_AGENT_HOME or .slipway/agent unless told
  --engine  how it runs applications; process unless told
  --port    of the router in front of processes and containers; 8788 or the next free one unless told
  --stop    ends what it runs when it ends itself; otherwise that serves on, and the next agent takes it over
AGENT_DATABASE_URL names a Postgres to give databases from among processes, instead of an embedded one of the agent's own.
AGENT_BUILD_ENV    names variables of this environment, comma-separated, that install and build commands of processes get too.
AGENT_ALLOWED_NETWORKS names networks, like 10.1.0.0/16, comma-separated, that repositories may be in though they are not public.
AGENT_RUN_AS       as whom processes run when the agent is root: first-last (of user numbers, one for each deployment), user[:group] or root.
AGENT_APPS_HOME    where the folders of processes are, if their users cannot get to --home.
AGENT_CGROUP       below which cgroup each process gets one of its own, instead of the agent's; off for none. See docs/processes.md.`

type EngineSettings = { home: string; port: number; agent_id: string; isolation: Isolation }
const ENGINE_FACTORIES: Record<string, (settings: EngineSettings) => Promise<Engine>> = {
  process: async ({ isolation: { users, apps, bin }, ...settings }) => {
    const { ProcessEngine } = await import('./engines/process.ts')
    const { AGENT_DATABASE_URL, AGENT_BUILD_ENV = '' } = process.env
    const lent = AGENT_BUILD_ENV.split(',').flatMap(name => {
      const value = process.env[name.trim()]
      return value === undefined ? [] : [[name.trim(), value]]
    })
    return new ProcessEngine({
      ...{
        ...settings,
        users,
        apps,
        bin,
        database_url: AGENT_DATABASE_URL || undefined,
        commandEnv: Object.fromEntries(lent),
      },
    })
  },
  // It keeps nothing on this machine: what it decides by is in the cluster. Its settings are K8S_…, see docs/kubernetes.md.
  kubernetes: async ({ agent_id }) => {
    const [{ KubernetesEngine }, { readSettings }] = await Promise.all([
      import('./engines/kubernetes.ts'),
      import('./engines/kubernetes/settings.ts'),
    ])
    return new KubernetesEngine({ settings: readSettings(process.env), agent_id })
  },
  // Its settings are CONTAINER_…, see docs/containers.md.
  container: async ({ agent_id, isolation: _, ...settings }) => {
    const [{ ContainerEngine }, { readSettings }] = await Promise.all([
      import('./engines/container.ts'),
      import('./engines/container/settings.ts'),
    ])
    const { owner, ...more } = readSettings(process.env)
    return new ContainerEngine({ ...settings, ...more, owner: owner ?? agent_id })
  },
}

async function main() {
  const { values } = parseArgs({
    options: {
      home: { type: 'string' },
      engine: { type: 'string', default: 'process' },
      port: { type: 'string', default: '8788' },
      stop: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return console.log(USAGE)
  const { SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: key, SLIPWAY_AGENT_ID, SLIPWAY_AGENT_HOME } = process.env
  if (!url || !key)
    throw new Error(
      'Set SLIPWAY_URL to the address of the control plane, and SLIPWAY_LISTENER_KEY to a key of `POST /v2/listeners/{id}/keys`.',
    )
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new Error(`SLIPWAY_URL ${url} is not an address: give one like https://slipway.example.com.`)
  const port = Number(values.port)
  if (!/^\d+$/.test(values.port) || port > 65_535)
    throw new Error(`--port ${values.port} is not a port: give a whole number up to 65535.`)
  const open = ENGINE_FACTORIES[values.engine]
  if (!open) throw new Error(`--engine ${values.engine} is not one of: ${Object.keys(ENGINE_FACTORIES).join(', ')}.`)
  const home = resolve(values.home ?? (SLIPWAY_AGENT_HOME || '.slipway/agent'))
  const agent_id = claimIdentity(home, SLIPWAY_AGENT_ID)
  const { AGENT_RUN_AS: run_as, AGENT_APPS_HOME: apps_home, AGENT_CGROUP } = process.env
  chooseCgroup(AGENT_CGROUP)
  const ground =
    values.engine === 'process' ? chooseIsolation({ home, run_as, apps_home }) : { users: undefined, apps: home }
  if (ground.reason) console.log(`applications not isolated reason="${ground.reason}" help=docs/processes.md`)
  const engine = await open({ home, port, agent_id, isolation: ground })
  console.log(`agent started engine=${values.engine} home=${home} control_plane=${url}`)
  const hidden = collectSecrets(process.env)
  // Nothing that the agent starts inherits them.
  for (const name of ['SLIPWAY_LISTENER_KEY', 'AGENT_DATABASE_URL']) delete process.env[name]
  const control = createControlPlaneClient({ url: url.replace(/\/$/, ''), key })
  const networks = parseNetworks(process.env.AGENT_ALLOWED_NETWORKS ?? '')
  const say = (line: string) => console.log(line)
  const identity = { agent_id, version: '1.0.0', home, ...ground }
  const agent = new Agent({ ...identity, engine, control, networks, hidden_values: hidden, logToOperator: say })

  let ending = false
  const end = async () => {
    if (ending) return
    ending = true
    await agent.close({ stop: values.stop })
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end())
  // Whoever started us is gone, even by SIGKILL.
  process.on('disconnect', () => void end())
  await agent.run().catch(async error => {
    await agent.close({ stop: values.stop })
    throw error
  })
}

/** What no line of a build may show of this agent's own settings, though some are lent to builds. */
function collectSecrets({ SLIPWAY_LISTENER_KEY, AGENT_DATABASE_URL, AGENT_BUILD_ENV = '', ...env }: NodeJS.ProcessEnv) {
  const lent = AGENT_BUILD_ENV.split(',').map(name => env[name.trim()] ?? '')
  const addresses = [AGENT_DATABASE_URL ?? '', ...lent].filter(value => URL.parse(value)?.password)
  return [SLIPWAY_LISTENER_KEY!, ...addresses]
}

/** Who it is, over restarts; and that nobody else is it now. */
function claimIdentity(home: string, named?: string): string {
  const file = join(home, 'agent.json')
  const kept = readJson<{ agent_id: string; identity: ProcessIdentity }>(file)
  if (kept && kept.identity.pid !== process.pid && isAlive(kept.identity))
    throw new Error(
      `Another agent, process ${kept.identity.pid}, already works in ${home}. Give this one another folder with --home, or end that process.`,
    )
  const name =
    hostname()
      .replace(/[^A-Za-z0-9.-]/g, '')
      .slice(0, 40) || 'agent'
  const agent_id = named || kept?.agent_id || `${name}-${randomBytes(6).toString('hex')}`
  writeJson(file, { agent_id, identity: identityOf(process.pid)! })
  return agent_id
}

main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
