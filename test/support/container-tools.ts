// Checks, before `npm run test:containers` starts, that the machine has the tools.
import fs from 'node:fs'
import { delimiter, join } from 'node:path'

const TOOLS = ['podman', 'runc', 'skopeo', 'docker-registry', 'busybox']

export function findMissingTools(): string[] {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return TOOLS.filter(tool => !folders.some(folder => fs.existsSync(join(folder, tool))))
}

export default function setup() {
  const missing = findMissingTools()
  if (missing.length > 0)
    throw new Error(`Not installed: ${missing.join(', ')}. Run scripts/container_tools.sh, then these tests again.`)
}
