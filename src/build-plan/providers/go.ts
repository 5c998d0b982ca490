// Go modules and workspaces.
import type { Proposal, Tool } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'
import { findVersion } from '../versions.ts'

const PROGRAM = '.slipway/app'
const PREFERRED = ['server', 'api', 'web', 'app', 'main']

export function proposeGo(app: Folder): Proposal | null {
  const file = ['go.mod', 'go.work'].find(app.has)
  const hasMain = app.has('main.go')
  if (!file && !hasMain) return null
  const tools = [findGo(app, file)]
  const commands = listCommands(app)
  const chosen =
    hasMain || isCommand(app, '') ? '' : (PREFERRED.find(name => commands.some(at => at.endsWith(`/${name}`))) ?? null)
  const at = chosen === '' ? '' : commands.find(name => (chosen ? name.endsWith(`/${chosen}`) : true))
  const isModule = file !== undefined
  if (at === undefined)
    return { tools, refusal: 'The Go module has no `package main`. Add one, or set `start_command` in slipway.json.' }
  const guessed = commands.length > 1 && at !== '' ? [`Of ${commands.length} programs, \`${at}\` is built.`] : []
  return {
    tools,
    install: isModule && app.has('go.sum') ? 'go mod download' : null,
    build: `go build -ldflags="-s -w" -o ${PROGRAM} ${isModule ? `./${at}` : 'main.go'}`,
    start: `./${PROGRAM}`,
    certain: [isModule ? `${file} makes it a Go module.` : 'main.go is its program.'],
    guessed,
  }
}

function findGo(app: Folder, file: string | undefined): Tool {
  const found = findVersion(app, 'go', ['.go-version'])
  const least = /^go[ \t]+(\d+(?:\.\d+)*)/m.exec(app.read(file ?? '') ?? '')?.[1]
  return found.version === null && least ? { name: 'go', version: `>=${least}`, from: file! } : found
}

const isCommand = (app: Folder, folder: string) =>
  app
    .all()
    .filter(file => file.endsWith('.go') && !file.endsWith('_test.go') && parentOf(file) === folder)
    .some(file => /^package main\b/m.test(app.read(file) ?? ''))

const parentOf = (file: string) => file.slice(0, Math.max(0, file.lastIndexOf('/')))

/** Folders with a `main.go`, those of `cmd/` first. */
const listCommands = (app: Folder): string[] =>
  app
    .all()
    .filter(file => file.endsWith('/main.go') && !/(^|\/)(vendor|testdata|node_modules)\//.test(file))
    .map(parentOf)
    .sort(
      (a, b) => Number(b.startsWith('cmd/')) - Number(a.startsWith('cmd/')) || a.length - b.length || (a < b ? -1 : 1),
    )
