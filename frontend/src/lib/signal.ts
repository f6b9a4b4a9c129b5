/** Looks at the page, and may give what then changes it. */
export type Listener = () => void | (() => void);

/** Listeners by topic. */
export class Signal<Topic extends string> {
  private readonly listeners = new Map<Topic, Set<Listener>>();

  /** Calls `listener` on any of `topics`; gives the function that ends it. */
  on(topics: readonly Topic[], listener: Listener): () => void {
    for (const topic of topics) {
      let set = this.listeners.get(topic);
      if (!set) this.listeners.set(topic, (set = new Set()));
      set.add(listener);
    }
    return () => topics.forEach((topic) => this.listeners.get(topic)?.delete(listener));
  }

  /** Calls the listeners, then what they gave: where they look and change in turns, the page is laid out for each. */
  emit(topic: Topic): void {
    const changes = [...(this.listeners.get(topic) ?? [])].map((listener) => listener());
    for (const change of changes) change?.();
  }
}
