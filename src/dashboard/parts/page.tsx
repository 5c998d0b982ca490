// The heading of a screen, and the frame of a list.
import type { ComponentChildren } from 'preact'
import styles from './page.module.css'

type PageHeadProps = {
  title: string
  state?: ComponentChildren
  actions?: ComponentChildren
  /** Facts in one line below. */
  meta?: ComponentChildren[]
}
export const PageHead = ({ title, state, actions, meta = [] }: PageHeadProps) => (
  <header class={styles.head}>
    <div class={styles.heading}>
      <h1>{title}</h1>
      {state}
    </div>
    {actions && <div class={styles.actions}>{actions}</div>}
    {meta.length > 0 && (
      <ul class={styles.meta}>
        {meta.filter(Boolean).map((fact, index) => (
          <li key={index}>{fact}</li>
        ))}
      </ul>
    )}
  </header>
)

/** The filter of a list, and the views beside it. */
export const Toolbar = ({ children, views }: { children: ComponentChildren; views?: ComponentChildren }) => (
  <div class={styles.toolbar}>
    {children}
    {views && <div class={styles.views}>{views}</div>}
  </div>
)

type ListCardProps = { children: ComponentChildren; isOld?: boolean | undefined }
/** The surface of a list. On a phone it reaches from edge to edge. What belongs to an earlier filter is dimmed. */
export const ListCard = ({ children, isOld }: ListCardProps) => (
  <div class={`${styles.list} ${isOld ? styles.old : ''}`}>{children}</div>
)

/** Sections of a page below each other. */
export const Stack = ({ children }: { children: ComponentChildren }) => <div class={styles.stack}>{children}</div>
