// All tools, in the order of the list.
import { apiTools } from './api-tools.ts'
import { changeTools } from './change-tools.ts'
import { readingTools } from './reading-tools.ts'
import type { Tool } from './tool.ts'

export const TOOLS: Tool[] = [...readingTools, ...changeTools, ...apiTools]
