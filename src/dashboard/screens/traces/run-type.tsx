// The type of a run as an icon.
import type { VNode } from 'preact'
import { type RunType, TYPE_WORDS } from './run-state.ts'
import styles from './run-type.module.css'

const PATHS: Record<RunType, VNode> = {
  llm: <path d="M8 2.5 9.4 6.6 13.5 8 9.4 9.4 8 13.5 6.6 9.4 2.5 8l4.1-1.4z" />,
  chain: (
    <path
      d="M6.8 9.2a2.4 2.4 0 0 1 0-3.4l2-2a2.4 2.4 0 0 1 3.4 3.4l-1 1M9.2 6.8a2.4 2.4 0 0 1 0 3.4l-2 2a2.4 2.4 0 0
          1-3.4-3.4l1-1"
    />
  ),
  tool: <path d="M10.8 2.7a3.3 3.3 0 0 0-3.4 4.6L2.8 12l1.3 1.3 4.6-4.7a3.3 3.3 0 0 0 4.6-3.4l-2 1.4-1.5-1.5z" />,
  retriever: <path d="M2.8 6.8a4 4 0 1 0 8 0 4 4 0 1 0-8 0M9.8 9.8l3.5 3.5M5 6.8h3.6" />,
  embedding: <path d="M3.5 3.5h2v2h-2zM10.5 3.5h2v2h-2zM3.5 10.5h2v2h-2zM10.5 10.5h2v2h-2zM7 7h2v2H7z" />,
  prompt: <path d="M2.8 3.5h10.4v7.4H7.4L4.6 13v-2.1H2.8zM5.4 6.2h5.2M5.4 8.4h3.2" />,
  parser: (
    <path d="M5.8 3.2c-2.2 0-.8 4.8-2.8 4.8 2 0 .6 4.8 2.8 4.8M10.2 3.2c2.2 0 .8 4.8 2.8 4.8-2 0-.6 4.8-2.8 4.8" />
  ),
}

/** `label` unless the word stands beside it. */
export const TypeIcon = ({ type, isNamed = false }: { type: RunType; isNamed?: boolean }) => (
  <svg
    class={`${styles.icon} ${styles[type] ?? ''}`}
    viewBox="0 0 16 16"
    role={isNamed ? 'img' : undefined}
    aria-label={isNamed ? TYPE_WORDS[type] : undefined}
    aria-hidden={isNamed ? undefined : true}
  >
    {PATHS[type] ?? PATHS.chain}
  </svg>
)
