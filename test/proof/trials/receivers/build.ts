// Builds receivers from modules of Go, each once, in the cache.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CACHE, findMissing, isInstalling } from '../../support/trial.ts'

const LOKI = 'github.com/grafana/loki/v3@v3.7.8'
const PROMETHEUS = 'github.com/prometheus/prometheus/cmd/prometheus@v0.316.0'
const COLLECTOR = [
  'go.opentelemetry.io/collector/otelcol@v0.165.0',
  'go.opentelemetry.io/collector/receiver/otlpreceiver@v0.165.0',
  'github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter@v0.165.1',
]
const FLAGS = { GOFLAGS: '-mod=mod -trimpath -p=1', CGO_ENABLED: '0' }
const STRIPPED = '-ldflags=-s -w'

const run = (cwd: string, args: string[], env: Record<string, string> = {}): string =>
  execFileSync('nice', ['go', ...args], {
    cwd,
    stdio: 'pipe',
    env: { ...process.env, ...FLAGS, ...env },
    maxBuffer: 1 << 26,
  }).toString()

/** The requirements of Loki, without those replacements that are folders of its repository. */
function writeLokiModule(folder: string): void {
  writeFileSync(join(folder, 'go.mod'), 'module loki-build\n')
  const { Dir } = JSON.parse(run(folder, ['mod', 'download', '-json', LOKI])) as { Dir: string }
  const module = readFileSync(join(Dir, 'go.mod'), 'utf8')
    .replace(/^module .*/m, 'module loki-build')
    .replace(/^.*=> \.\/.*\n/gm, '')
  writeFileSync(join(folder, 'go.mod'), module)
  writeFileSync(join(folder, 'go.sum'), readFileSync(join(Dir, 'go.sum')))
  run(folder, ['mod', 'edit', `-require=${LOKI}`])
  run(folder, ['get', 'github.com/grafana/loki/pkg/push@latest'])
}

const BUILDS: Record<string, (folder: string) => void> = {
  otelcol: folder => {
    copyFileSync(join(import.meta.dirname, 'collector.go'), join(folder, 'main.go'))
    rmSync(join(folder, 'go.mod'), { force: true })
    run(folder, ['mod', 'init', 'otelcol'])
    run(folder, ['get', ...COLLECTOR])
    run(folder, ['build', STRIPPED, '-o', 'otelcol', '.'])
  },
  loki: folder => {
    writeLokiModule(folder)
    run(folder, ['build', STRIPPED, '-o', 'loki', 'github.com/grafana/loki/v3/cmd/loki'])
  },
  prometheus: folder => void run(folder, ['install', STRIPPED, PROMETHEUS], { GOBIN: folder }),
}

/** Its path, or why there is none. */
export function findReceiver(name: keyof typeof BUILDS): { program: string } | { missing: string } {
  const folder = join(CACHE, name)
  const program = join(folder, name)
  if (existsSync(program)) return { program }
  if (!isInstalling) return { missing: `${name} is not built: --install` }
  const missing = findMissing('go')
  if (missing) return { missing }
  mkdirSync(folder, { recursive: true })
  try {
    BUILDS[name]!(folder)
  } catch (error) {
    const { stderr } = error as { stderr?: Buffer }
    return { missing: `${name} could not be built: ${stderr?.toString().trim().split('\n').at(-1) ?? error}` }
  }
  return { program }
}
