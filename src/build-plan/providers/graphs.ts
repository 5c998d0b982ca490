// Graph applications: a langgraph.json, whose graphs the server of src/graphs serves.
import type { Proposal, Tool } from '../build-plan.ts'
import { quote } from '../shell-words.ts'
import { type Folder, relativePath } from '../source-files.ts'
import { findVersion } from '../versions.ts'
import { type GraphFile, readGraphEnvironment, readGraphFile, sourceOf } from './graphs/graph-file.ts'
import { installPythonGraphs, VENV } from './graphs/python-install.ts'
import { findManager } from './node/managers.ts'
import { readManifest } from './node/manifest.ts'

const MAX_LISTED = 8
/** The oldest Node that runs the server. */
const SERVER_NODE = 22

/** Throws `PlanRefused` for a file with faults. `name`: of the file, in the folder of the application. */
export function proposeGraphs(app: Folder, name: string): Proposal {
  const file = readGraphFile(app, name)
  const path = app.path === '' ? name : `${app.path}/${name}`
  const { languages } = file
  const node = languages.includes('javascript') ? installNode(app) : null
  const python = languages.includes('python') ? installPythonGraphs(app, file) : null
  // One folder for both: that of the application.
  const enter = node && node.folder.path !== app.path ? `cd ${quote(relativePath(app.path, node.folder.path))} && ` : ''
  const install = python && node?.command ? `(${enter}${node.command}) && ${python}` : (python ?? node?.command ?? null)
  const ids = file.graphs.map(({ id }) => `\`${id}\``)
  const more = ids.length > MAX_LISTED ? ` and ${ids.length - MAX_LISTED} more` : ''
  const count = ids.length === 1 ? 'the graph' : `${ids.length} graphs`
  const kinds = languages.map(language => (language === 'python' ? 'Python' : 'JavaScript')).join(' and ')
  return {
    kind: 'graphs',
    graph_file: path,
    install_root: python ? app.path : (node?.folder.path ?? app.path),
    tools: [
      { name: 'node', version: `>=${Math.max(SERVER_NODE, Number(file.node_version ?? 0))}`, from: name },
      ...(node?.tool ? [node.tool] : []),
      ...(python ? [findPython(app, file, name), findVersion(app, 'uv')] : []),
      { name: node ? 'graphs-javascript' : 'graphs', version: null, from: null },
    ],
    install,
    start: `slipway-graphs ${quote(name)}`,
    health_path: `${file.prefix}/ok`,
    sleep_path: `${file.prefix}/internal/sleep`,
    env: python ? { UV_PYTHON_PREFERENCE: 'system', PYTHONUNBUFFERED: '1' } : {},
    programs: [...(python ? [`${VENV}/bin`] : []), ...(node ? ['node_modules/.bin'] : [])],
    certain: [
      `${name} names ${count} ${ids.slice(0, MAX_LISTED).join(', ')}${more} in ${kinds}.`,
      'A server with a database of its own serves them.',
      ...describeEnvironment(app, path),
    ],
    warnings: [...file.warnings, ...(node?.warnings ?? [])],
  }
}

function installNode(app: Folder) {
  const manifest = readManifest(app)
  if (!manifest) return { folder: app, command: null, tool: null, warnings: [] }
  const manager = findManager(app, manifest)
  // Types and compilers are often among the development dependencies.
  return { ...manager, command: manager.install(true), warnings: manager.warnings ?? [] }
}

function findPython(app: Folder, { python_version }: GraphFile, name: string): Tool {
  if (python_version !== null) return { name: 'python', version: python_version, from: name }
  const found = findVersion(app, 'python', ['.python-version'])
  return found.version === null ? { name: 'python', version: '>=3.11', from: name } : found
}

function describeEnvironment(app: Folder, path: string): string[] {
  const { file, variables, reserved } = readGraphEnvironment(sourceOf(app), path)
  const count = Object.keys(variables).length
  const from = file === null ? '`env`' : `\`${file}\``
  return [
    ...(count > 0 ? [`${from} has ${count === 1 ? 'a variable' : `${count} variables`}.`] : []),
    ...(reserved.length > 0
      ? [`The platform sets ${reserved.slice(0, MAX_LISTED).join(', ')} in place of ${from}.`]
      : []),
  ]
}
