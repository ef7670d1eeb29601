# Four clients, each with so many files, over FTP on port 2121. Prints what they got back.
import ftplib
import hashlib
import io
import sys
from concurrent.futures import ThreadPoolExecutor

count = int(sys.argv[1])


def use(name):
    client = ftplib.FTP()
    client.connect("127.0.0.1", 2121, timeout=30)
    client.login("ann", "x")
    client.mkd(name)
    client.cwd(name)
    for at in range(count):
        client.storbinary(f"STOR f{at}", io.BytesIO(f"stone {at} of {name}\n".encode() * (at * 7)))
    found = hashlib.md5()
    found.update("".join(sorted(client.nlst())).encode())
    for at in range(count):
        client.rename(f"f{at}", f"g{at}")
        client.retrbinary(f"RETR g{at}", found.update)
    listed = []
    client.retrlines("MLSD", listed.append)
    sizes = sorted(line.split("size=")[1].split(";")[0] for line in listed if "size=" in line)
    found.update(repr(sizes).encode())
    for at in range(count):
        client.delete(f"g{at}")
    client.cwd("..")
    client.rmd(name)
    client.quit()
    return name, found.hexdigest()


with ThreadPoolExecutor(4) as pool:
    for name, found in pool.map(use, ("a", "b", "c", "d")):
        print(name, found)
