// A surface with a title.
import type { ComponentChildren } from 'preact'
import styles from './card.module.css'

type CardProps = {
  title: ComponentChildren
  aside?: ComponentChildren
  tone?: 'warn' | 'bad' | undefined
  class?: string | undefined
  children: ComponentChildren
}
export const Card = ({ title, aside, tone, class: extra = '', children }: CardProps) => (
  <section class={`${styles.card} ${tone ? styles[tone] : ''} ${extra}`}>
    <header>
      <h2>{title}</h2>
      {aside && <div class={styles.aside}>{aside}</div>}
    </header>
    {children}
  </section>
)
