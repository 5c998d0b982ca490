// Icons are outlines of 16 px; glyphs are the shapes of states.
import type { ComponentChildren } from 'preact'
import type { Shape, Tone } from '../format/state.ts'
import styles from './icon.module.css'

const ICONS = {
  cube: <path d="M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.7 5.1 8 8.2l5.3-3.1M8 8.2v5.8" />,
  branch: (
    <path
      d="M4.5 5.2v5.6M11.5 6.7c0 2.6-3.6 2-6.6 4.2M2.8 3.5a1.7 1.7 0 1 0 3.4 0 1.7 1.7 0 1 0-3.4 0M2.8 12.5a1.7
          1.7 0 1 0 3.4 0 1.7 1.7 0 1 0-3.4 0M9.8 5a1.7 1.7 0 1 0 3.4 0 1.7 1.7 0 1 0-3.4 0"
    />
  ),
  box: (
    <path
      d="M3.7 4h8.6c.7 0 1.2.5 1.2 1.2v6.1c0 .7-.5 1.2-1.2 1.2H3.7c-.7 0-1.2-.5-1.2-1.2V5.2C2.5 4.5 3 4 3.7
          4zM5.5 6.5V10M8 6.5V10M10.5 6.5V10"
    />
  ),
  archive: <path d="M3 5.5h10v7.2a.8.8 0 0 1-.8.8H3.8a.8.8 0 0 1-.8-.8zM2.3 2.5h11.4v3H2.3zM6.5 8h3" />,
  grid: <path d="M2.5 2.5h4.6v4.6H2.5zM8.9 2.5h4.6v4.6H8.9zM2.5 8.9h4.6v4.6H2.5zM11.2 9.2v4M9.2 11.2h4" />,
  search: <path d="M2.7 7a4.3 4.3 0 1 0 8.6 0 4.3 4.3 0 1 0-8.6 0M10.3 10.3l3.2 3.2" />,
  out: <path d="M6.5 3.5h-3v9h9v-3M9.5 2.5h4v4M13.2 2.8 7.5 8.5" />,
  copy: <path d="M5.5 5.5h8v8h-8zM3.2 10.5H2v-8h8.5v.7" />,
  down: <path d="m3.5 6 4.5 4.5L12.5 6" />,
  up: <path d="M3.5 10 8 5.5l4.5 4.5" />,
  right: <path d="m6 3.5 4.5 4.5L6 12.5" />,
  cross: <path d="m4.5 4.5 7 7M11.5 4.5l-7 7" />,
  plus: <path d="M8 3v10M3 8h10" />,
  menu: <path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />,
  queue: <path d="M2.5 3.5h11v3h-11zM2.5 9.5h4.5M2.5 12.5h4.5M10 9.2v4l3.5-2z" />,
  lines: <path d="M3 4h10M3 8h7M3 12h9" />,
  stop: (
    <path d="M5.2 4h5.6c.7 0 1.2.5 1.2 1.2v5.6c0 .7-.5 1.2-1.2 1.2H5.2c-.7 0-1.2-.5-1.2-1.2V5.2C4 4.5 4.5 4 5.2 4z" />
  ),
  again: <path d="M3 3v4h4M3.3 7A5.3 5.3 0 1 1 3.5 10.5" />,
  book: <path d="M8 4 2.5 2.5v9.8L8 13.8l5.5-1.5V2.5zM8 4v9.8" />,
  bell: <path d="M4 6.8a4 4 0 0 1 8 0c0 3 .7 3.8 1.5 4.7h-11C3.3 10.6 4 9.8 4 6.8zM6.7 13.5h2.6" />,
  pull: (
    <path
      d="M4.5 5.2v5.6M11.5 10.8V6.5a2 2 0 0 0-2-2H8M9.5 2.8 7.8 4.5l1.7 1.7M2.8 3.5a1.7 1.7 0 1 0 3.4 0 1.7 1.7 0
          1 0-3.4 0M2.8 12.5a1.7 1.7 0 1 0 3.4 0 1.7 1.7 0 1 0-3.4 0M9.8 12.5a1.7 1.7 0 1 0 3.4 0 1.7 1.7 0 1
          0-3.4 0"
    />
  ),
  clock: <path d="M2.5 8a5.5 5.5 0 1 0 11 0 5.5 5.5 0 1 0-11 0M8 4.8V8l2.2 1.6" />,
  get: <path d="M8 2.5v7.5M4.7 7 8 10.3 11.3 7M3 13.5h10" />,
  person: <path d="M5.4 5.2a2.6 2.6 0 1 0 5.2 0 2.6 2.6 0 1 0-5.2 0M2.8 13.5c.4-2.7 2.4-4.2 5.2-4.2s4.8 1.5 5.2 4.2" />,
  role: <path d="M8 1.8 13 3.5v4c0 3.2-2 5.4-5 6.7-3-1.3-5-3.5-5-6.7v-4zM5.8 7.9l1.6 1.6 2.9-3.2" />,
  key: <path d="M2 5.5a3.2 3.2 0 1 0 6.4 0 3.2 3.2 0 1 0-6.4 0M7.5 7.8l6 6M11 11.3l1.6-1.6" />,
  gear: (
    <path
      d="M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M8.5 4.5a1.5 1.5 0 1 0 3 0 1.5 1.5 0 1 0-3 0M4.5 11.5a1.5 1.5
          0 1 0 3 0 1.5 1.5 0 1 0-3 0"
    />
  ),
  audit: <path d="M3.5 2h9v12h-9zM6 5.2h4M6 8h4M6 10.8h2.2" />,
  listener: (
    <path
      d="M8 9v5M6 14h4M6.6 7.5a1.4 1.4 0 1 0 2.8 0 1.4 1.4 0 1 0-2.8 0M4.6 10.6a4.6 4.6 0 0 1 0-6.4M11.4 4.2a4.6
          4.6 0 0 1 0 6.4M2.6 12.2a7 7 0 0 1 0-9.4M13.4 2.8a7 7 0 0 1 0 9.4"
    />
  ),
  plug: <path d="M5.5 2v3.5M10.5 2v3.5M4 5.5h8v2.3a4 4 0 0 1-8 0zM8 11.8V14" />,
  spans: <path d="M2.5 4h8M5 8h8.5M7.5 12H12" />,
  stack: <path d="M8 2.2 14 5 8 7.8 2 5zM2.5 8.2 8 10.8l5.5-2.6M2.5 11.2 8 13.8l5.5-2.6" />,
  pen: <path d="m3 13 .8-3.2 7-7 2.4 2.4-7 7z" />,
  bolt: <path d="M9 1.8 3.5 9H8l-1 5.2L12.5 7H8z" />,
  spark: <path d="M8 2c.4 4 2 5.6 6 6-4 .4-5.6 2-6 6-.4-4-2-5.6-6-6 4-.4 5.6-2 6-6z" />,
  hook: <path d="M5.5 4.2 2.5 7l3 2.8M2.8 7h6.4a3.3 3.3 0 0 1 0 6.6H7" />,
} as const
export type IconName = keyof typeof ICONS

type IconProps = { name: IconName; label?: string | undefined }
export const Icon = ({ name, label }: IconProps) => (
  <svg
    class={styles.icon}
    viewBox="0 0 16 16"
    role={label ? 'img' : undefined}
    aria-label={label}
    aria-hidden={label ? undefined : true}
  >
    {ICONS[name]}
  </svg>
)

const line = { fill: 'none', stroke: 'currentColor', 'stroke-width': 1.6 } as const
const mark = { class: styles.mark, fill: 'none', 'stroke-width': 1.7, 'stroke-linecap': 'round' } as const
const GLYPHS: Record<Shape, ComponentChildren> = {
  check: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path d="m5.2 8.2 2 2 3.6-4" {...mark} stroke-linejoin="round" />
    </>
  ),
  arc: (
    <>
      <circle cx="8" cy="8" r="5.6" {...line} stroke-width="1.8" opacity=".28" />
      <path class={styles.spin} d="M8 2.4a5.6 5.6 0 0 1 5.6 5.6" {...line} stroke-width="1.8" stroke-linecap="round" />
    </>
  ),
  queued: (
    <circle cx="8" cy="8" r="5.6" {...line} stroke-width="1.8" stroke-dasharray="2.1 2.3" stroke-linecap="round" />
  ),
  octagon: (
    <>
      <path d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z" fill="currentColor" />
      <path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4" {...mark} />
    </>
  ),
  triangle: (
    <>
      <path d="M8 1.6 15 13.9H1z" fill="currentColor" stroke="currentColor" stroke-linejoin="round" />
      <path d="M8 6v3.6M8 11.8v.1" {...mark} />
    </>
  ),
  held: (
    <>
      <rect x="1.8" y="1.8" width="12.4" height="12.4" rx="3" fill="currentColor" />
      <path d="M6.2 5.3v5.4M9.8 5.3v5.4" {...mark} />
    </>
  ),
  diamond: (
    <>
      <rect x="3.2" y="3.2" width="9.6" height="9.6" rx="1" transform="rotate(45 8 8)" {...line} />
      <path d="M8 5.2v3.6M8 10.9v.1" {...line} stroke-linecap="round" />
    </>
  ),
  minus: (
    <>
      <circle cx="8" cy="8" r="5.6" {...line} />
      <path d="M5.4 8h5.2" {...line} stroke-linecap="round" />
    </>
  ),
  struck: (
    <>
      <circle cx="8" cy="8" r="5.6" {...line} />
      <path d="m4.2 11.8 7.6-7.6" {...line} />
    </>
  ),
  ring: <circle cx="8" cy="8" r="5.2" {...line} />,
}

export const Glyph = ({ shape, tone }: { shape: Shape; tone: Tone }) => (
  <svg class={`${styles.glyph} ${styles[tone]}`} viewBox="0 0 16 16" aria-hidden="true">
    {GLYPHS[shape]}
  </svg>
)
