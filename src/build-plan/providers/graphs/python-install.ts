// Installs what Python graphs need, in the order of the reference: packages, then the requirements of folders, then the
// folders themselves. The environment is made where it stays, because one that is moved breaks.
import { quote } from '../../shell-words.ts'
import type { Folder } from '../../source-files.ts'
import { type GraphFile, isPackage, sourceOf } from './graph-file.ts'

export const VENV = '.venv'
/** The packages of the executor, which an install must not contradict. */
const OF_RUNTIME = '-r "$GRAPHS_RUNTIME/python/requirements.txt"'

export function installPythonGraphs(app: Folder, file: GraphFile): string {
  const { source, packages, folders, usesPip, pip_config_file } = file
  const install = usesPip ? `${VENV}/bin/python -m pip install` : `uv pip install --python ${VENV}`
  if (source) {
    const sync = [
      `UV_PROJECT_ENVIRONMENT="$PWD/${VENV}" uv sync --frozen --no-dev`,
      `--project ${quote(source.root)}`,
      ...(source.package ? [`--package ${quote(source.package)}`] : []),
    ]
    return `${sync.join(' ')} && uv pip install --python ${VENV} ${OF_RUNTIME}`
  }
  const open = folders.map(({ written, path }) => ({ written, folder: sourceOf(app).folder(path) }))
  const requirements = open.filter(({ folder }) => !isPackage(folder) && folder.has('requirements.txt'))
  const arguments_ = [
    OF_RUNTIME,
    ...packages.map(quote),
    ...requirements.map(({ written }) => `-r ${quote(`${trim(written)}/requirements.txt`)}`),
    ...open.filter(({ folder }) => isPackage(folder)).map(({ written }) => `-e ${quote(written)}`),
  ]
  const steps = [
    `uv venv ${usesPip ? '--seed ' : ''}${VENV}`,
    `${pip_config_file ? `PIP_CONFIG_FILE=${quote(pip_config_file)} ` : ''}${install} ${arguments_.join(' ')}`,
    ...addToPath(open.filter(({ folder }) => !isPackage(folder))),
  ]
  return steps.join(' && ')
}

/** A folder that is no package: its modules are imported by their names, and a folder with __init__.py by its own. */
function addToPath(open: { written: string; folder: Folder }[]): string[] {
  const parents = open.map(({ written, folder }) => (folder.has('__init__.py') ? `${trim(written)}/..` : trim(written)))
  if (parents.length === 0) return []
  const lines = [...new Set(parents)].map(parent => `"$PWD"/${quote(parent)}`).join(' ')
  return [`printf '%s\\n' ${lines} > "$(echo ${VENV}/lib/python3*/site-packages)/graphs.pth"`]
}

function trim(written: string): string {
  let end = written.length
  while (written[end - 1] === '/') end--
  return written.slice(0, end)
}
