// PATH of applications and builds: Node and npm of the agent, or those in `bin`, before the programs of the system.
import { dirname } from 'node:path'

export const searchPath = (bin = dirname(process.execPath)) => [bin, '/usr/local/bin', '/usr/bin', '/bin'].join(':')
export const DEFAULT_PATH = searchPath()
