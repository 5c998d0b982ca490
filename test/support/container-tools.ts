// Checks, before `npm run test:containers` starts, that the machine has the tools.
import fs from 'node:fs'
import { delimiter, join } from 'node:path'

const TOOLS = ['podman', 'runc', 'skopeo', 'docker-registry', 'busybox']

export default function setup() {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const missing = TOOLS.filter(tool => !folders.some(folder => fs.existsSync(join(folder, tool))))
  if (missing.length > 0)
    throw new Error(`Not installed: ${missing.join(', ')}. Run scripts/container_tools.sh, then these tests again.`)
}
