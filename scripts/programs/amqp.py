# Publishes so many messages into queues of RabbitMQ, lets them wait, and takes them out. Prints a
# sum of each queue.
import hashlib
import sys

import pika

count = int(sys.argv[1])
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1"))
channel = connection.channel()
channel.exchange_declare("stones", "topic")
queues = {"all": "#", "odd": "odd.*", "seven": "*.7"}
for name, key in queues.items():
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, "stones", key)
for at in range(count):
    key = f"{'odd' if at % 2 else 'even'}.{at % 11}"
    body = f"stone {at} ".encode() * (1 + at % 60)
    kept = pika.BasicProperties(delivery_mode=1 + at % 2, headers={"at": at})
    channel.basic_publish("stones", key, body, kept)
expected = {"all": count, "odd": count // 2, "seven": len(range(7, count, 11))}
for name, wanted in expected.items():
    found, got = hashlib.md5(), 0
    for method, _, body in channel.consume(name, inactivity_timeout=20):
        if method is None:
            break
        found.update(body)
        got += 1
        channel.basic_ack(method.delivery_tag)
        if got == wanted:
            break
    channel.cancel()
    left = channel.queue_declare(name, passive=True).method.message_count
    print(name, got, left, found.hexdigest())
    channel.queue_delete(name)
channel.exchange_delete("stones")
connection.close()
