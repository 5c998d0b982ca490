// The tools of a build: where they are, and how one comes into the folder that all builds share.
import * as fs from 'node:fs'

/** `home` has the programs of the tool in `bin`. */
export type Installed = { home: string; version: string }
export type Toolbox = { programs: string[]; env: Record<string, string> }
export type ToolOptions = {
  /** The folder of tools that all builds of this agent share. Applications can read it, and only the agent writes. */
  shared: string
  /** Applications run as other users, who may not reach what is installed for the agent's. */
  areOthers: boolean
  /** Variables of the machine, such as those of a proxy. */
  env: Record<string, string>
  /** The path of each application, with the agent's own Node and npm. */
  path: string
  /** The PATH of the agent itself, which may name more folders. */
  machinePath: string
}

/** Another build may have been faster. */
export function moveIntoPlace(from: string, to: string): void {
  try {
    fs.renameSync(from, to)
  } catch (error) {
    if (!fs.existsSync(to)) throw error
    fs.rmSync(from, { recursive: true, force: true })
  }
}
