# cmake -DIN=FILE -DOUT=FILE.inc -P embed.cmake: the bytes of a file as the elements of a C array.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "${bytes}\n")
