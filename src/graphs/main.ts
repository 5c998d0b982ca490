// node main.ts FILE: serves the graphs of a langgraph.json on PORT, with their state in DATABASE_URI.
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readConfiguration } from './configuration.ts'
import { StartError } from './errors.ts'
import { DEFAULT_LIMITS, LIMIT_VARIABLES, type Limits } from './limits.ts'
import { commandsIn, start } from './start.ts'

const VERSION = '0.1.0'
const FORCED_END_MS = 10_000

function readNumber(name: string, fallback: number): number {
  const text = process.env[name]
  if (text === undefined || text === '') return fallback
  const number = Number(text)
  if (!Number.isInteger(number) || number < 0) throw new StartError(`${name} must be a whole number, not "${text}".`)
  return number
}

function readLimits(): Limits {
  const limits = { ...DEFAULT_LIMITS }
  for (const name of Object.keys(limits) as (keyof Limits)[])
    limits[name] = readNumber(LIMIT_VARIABLES[name], limits[name])
  return limits
}

async function main(): Promise<void> {
  const configuration = readConfiguration(process.argv[2] ?? 'langgraph.json')
  // Variables of the process win over those of the file.
  const environment = { ...configuration.variables, ...process.env }
  Object.assign(process.env, environment)
  const databaseUrl = environment.DATABASE_URI ?? environment.POSTGRES_URI
  if (!databaseUrl) throw new StartError('DATABASE_URI is not set. Set it to the URL of a Postgres database.')
  const port = readNumber('PORT', 8123)
  const runtimes = environment.GRAPHS_RUNTIME ?? join(dirname(fileURLToPath(import.meta.url)), 'runtimes')
  const apiKey = environment.GRAPHS_API_KEY || undefined
  const own = { LANGGRAPH_API_URL: `http://127.0.0.1:${port}`, ...(apiKey && { LANGGRAPH_API_KEY: apiKey }) }
  const running = await start({
    configuration,
    databaseUrl,
    commands: commandsIn(runtimes, { folder: configuration.folder, python: environment.GRAPHS_PYTHON }),
    // A graph that calls its own server by the SDK finds it, and its key.
    environment: { ...own, ...environment },
    host: environment.HOST ?? '127.0.0.1',
    port,
    slots: readNumber('N_JOBS_PER_WORKER', 10),
    limits: readLimits(),
    answerMs: readNumber('GRAPHS_ANSWER_SECONDS', 60) * 1000,
    apiKey,
    isWorkerOnly: environment.GRAPHS_ROLE === 'worker',
    version: VERSION,
  })
  const names = configuration.graphs.map(graph => graph.id).join(', ')
  console.log(`graphs served graphs=${names} url=${running.url || 'none'} ms=${Math.round(performance.now())}`)
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      setTimeout(() => process.exit(1), FORCED_END_MS).unref()
      running.stop().then(
        () => process.exit(0),
        error => {
          console.error(`stop failed: ${(error as Error).message}`)
          process.exit(1)
        },
      )
    })
}

try {
  await main()
} catch (error) {
  console.error(error instanceof StartError ? error.message : error)
  process.exit(1)
}
