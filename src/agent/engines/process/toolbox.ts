// The tools of a build: where they are, and how one comes into the folder that all builds share.
import * as fs from 'node:fs'
import { delimiter, dirname } from 'node:path'

/** `home` has the programs of the tool in `bin`. */
export type Installed = { home: string; version: string }
export type Toolbox = {
  programs: string[]
  env: Record<string, string>
  /** The folder of Node that has its headers in `include/node`. */
  headers: string | null
}
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

export const systemFolders = (machinePath: string) => [
  ...machinePath.split(delimiter).filter(Boolean),
  '/usr/local/go/bin',
  '/usr/local/bin',
  '/usr/bin',
  '/bin',
]

/** Fills a folder of the shared one by way of a temporary one, which is removed if that fails. */
export async function fillShared(folder: string, fill: (temporary: string) => Promise<void>): Promise<void> {
  if (fs.existsSync(folder)) return
  fs.mkdirSync(dirname(folder), { recursive: true, mode: 0o755 })
  const temporary = fs.mkdtempSync(`${folder}.new-`)
  fs.chmodSync(temporary, 0o755)
  try {
    await fill(temporary)
    fs.renameSync(temporary, folder)
  } catch (error) {
    fs.rmSync(temporary, { recursive: true, force: true })
    // Another build may have been faster.
    if (!fs.existsSync(folder)) throw error
  }
}
