// All commands, in the order of the help.
import type { Declare } from '../declaration.ts'
import { declareAccount } from './account.ts'
import { declareChange } from './change.ts'
import { declareCompletion } from './completion.ts'
import { declareConnections } from './connections.ts'
import { declareDeploy } from './deploy.ts'
import { declareRead } from './read.ts'
import { declareWorkspace } from './workspace.ts'

export function declareCommands(declare: Declare): void {
  declareDeploy(declare)
  declareRead(declare)
  declareChange(declare)
  declareConnections(declare)
  declareWorkspace(declare)
  declareAccount(declare)
  declareCompletion(declare)
}
